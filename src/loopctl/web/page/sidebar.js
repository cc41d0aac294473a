/**
 * Owns the list of conversations beside the page, which is a drawer on a narrow one.
 */

import { h, put } from "./dom.js";
import { moment } from "./words.js";

export class Sidebar {
  #api;
  #list;
  #drawer;
  #toggle;
  #current = null;
  #sessions = [];
  #running = new Set();

  constructor(api, { list, drawer, toggle }) {
    this.#api = api;
    this.#list = list;
    this.#drawer = drawer;
    this.#toggle = toggle;
    toggle.addEventListener("click", () => this.open(!this.isOpen));
    drawer.addEventListener("click", (event) => event.target.closest("a") && this.open(false));
  }

  get isOpen() {
    return this.#toggle.getAttribute("aria-expanded") === "true";
  }

  open(isOpen) {
    if (isOpen === this.isOpen) return;
    this.#toggle.setAttribute("aria-expanded", String(isOpen));
    this.#drawer.classList.toggle("is-open", isOpen);
    if (isOpen) this.#drawer.querySelector("a")?.focus();
    else if (this.#drawer.contains(document.activeElement)) this.#toggle.focus();
  }

  /** Ask the server which conversations there are. */
  async refresh() {
    try {
      this.#sessions = (await this.#api.json("/sessions")).sessions;
    } catch {
      return; // the list is a convenience: what was known stays, and the chat says what is wrong
    }
    this.draw(this.#current, this.#running);
  }

  /** Show them: `current` is the one on the page, `running` the ids of those that answer. */
  draw(current, running) {
    this.#current = current;
    this.#running = running;
    const rows = this.#sessions.map((session) => {
      const isRunning = running.has(session.id) || Boolean(session.active_run_id);
      const live = h("span", { class: "session-live" }, "answering");
      const time = session.created_at && h("span", { class: "session-time" }, moment(session.created_at));
      return h(
        "li",
        {},
        h("a", { href: `#/chat/${encodeURIComponent(session.id)}`, "aria-current": session.id === current ? "page" : null },
          h("span", { class: "session-title" }, session.title || "Untitled"),
          isRunning ? live : time),
      );
    });
    put(this.#list, rows.length ? rows : h("li", { class: "quiet session-none" }, "None yet."));
  }
}
