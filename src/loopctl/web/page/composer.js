/**
 * Owns the message box, and the Stop button that stands in its place while something runs.
 *
 * Rules: Enter sends, Shift+Enter begins a line; a draft survives everything. When the button that has the focus goes away,
 * the focus goes to the box.
 */

import { h, icon, put } from "./dom.js";

export class Composer {
  #send;
  #isBusy = false;
  #box = h("textarea", {
    id: newBoxId(), rows: 1, placeholder: "Write a message", enterkeyhint: "send", autocomplete: "off",
    onkeydown: (event) => this.#key(event), oninput: () => this.#grow(),
  });
  #go = h("button", { type: "submit", class: "send", "aria-label": "Send" }, icon("arrow"));
  #label = h("span", {}, "Stop");
  #stop = h(
    "button",
    { type: "button", class: "stop", hidden: true, "aria-keyshortcuts": "Escape" },
    icon("square"),
    this.#label,
    h("kbd", { "aria-hidden": "true" }, "Esc"),
  );
  #note = h("span", {});
  #retry = h("button", { type: "button", class: "button is-plain", hidden: true }, "Try now");
  #status = h("div", { class: "status", hidden: true }, h("span", { class: "pulse", "aria-hidden": "true" }), this.#note, this.#retry);
  element;

  constructor({ send, stop, retry }) {
    this.#send = send;
    this.#stop.addEventListener("click", stop);
    this.#retry.addEventListener("click", retry);
    this.element = h(
      "form",
      { class: "composer", onsubmit: (event) => this.#submit(event) },
      this.#status,
      h("div", { class: "composer-row" },
        h("div", { class: "box" }, h("label", { class: "unseen", for: this.#box.id }, "Message"), this.#box, this.#go),
        this.#stop),
    );
  }

  focus() {
    this.#box.focus();
  }

  /** Put a message back that was not taken, unless another one was begun. */
  giveBack(text) {
    if (!this.#box.value.trim()) this.#box.value = text;
    this.#grow();
    this.focus();
  }

  /** Nothing runs. */
  idle() {
    if (!this.#isBusy) return;
    this.#isBusy = false;
    const hadFocus = document.activeElement === this.#stop || document.activeElement === this.#retry;
    this.#stop.hidden = true;
    this.#status.hidden = true;
    this.#go.hidden = false;
    this.element.classList.remove("is-busy", "is-urgent");
    if (hadFocus) this.focus();
  }

  /** Something runs: `label` is what Stop does now. */
  busy({ label, note, isWaiting = false, isUrgent = false, isLost = false }) {
    this.#isBusy = true;
    const hadFocus = document.activeElement === this.#go;
    this.#stop.hidden = false;
    this.#status.hidden = false;
    this.#go.hidden = true;
    if (this.#label.textContent !== label) put(this.#label, label);
    this.#stop.setAttribute("aria-disabled", String(isWaiting));
    if (this.#note.textContent !== note) this.#note.textContent = note;
    this.#retry.hidden = !isLost;
    this.element.classList.add("is-busy");
    this.element.classList.toggle("is-urgent", isUrgent);
    this.element.classList.toggle("is-lost", isLost);
    if (hadFocus) this.#stop.focus();
  }

  #key(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.element.requestSubmit();
  }

  #submit(event) {
    event.preventDefault();
    const text = this.#box.value.trim();
    if (!text || !this.#send(text)) return;
    this.#box.value = "";
    this.#grow();
  }

  #grow() {
    this.#box.style.height = "auto";
    this.#box.style.height = `${Math.min(this.#box.scrollHeight, 200)}px`;
  }
}

let boxes = 0;

function newBoxId() {
  boxes += 1;
  return `message-${boxes}`;
}
