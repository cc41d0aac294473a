/**
 * Owns showing one tool call: what it is, how far it is, what became of it, and the question before it.
 *
 * Rules: the status is said in words, not by colour alone; the card shows what the run's events say, see live.js.
 */

import { h, icon, put } from "./dom.js";
import { isFinal } from "./live.js";
import { CALL, UNDERWAY, callText, duration } from "./words.js";

const MARKS = {
  completed: "check", failed: "cross", denied: "slash", not_started: "ring", interrupted: "square", abandoned: "square",
  unknown: "question", coming: "ring", asking: "question", running: "dot", closing: "ring",
};
const LONGEST = 20_000;

export class ToolCard {
  #tool;
  #answer;
  #began = Date.now();
  #version = -1;
  #mark = h("span", { class: "call-mark" });
  #name = h("span", { class: "call-name" });
  #args = h("span", { class: "call-args" });
  #time = h("span", { class: "call-time" });
  #status = h("span", { class: "call-status" });
  #bar = h("div", { class: "bar-fill" });
  #progress = h("div", { class: "bar", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100 }, this.#bar);
  #message = h("p", { class: "call-message" });
  #note = h("p", { class: "call-note" });
  #question = h("div", { class: "question" });
  #content = h("div", { class: "call-content" });
  #details = h(
    "details",
    { class: "call-details" },
    h(
      "summary",
      { class: "call-head" },
      this.#mark,
      h("span", { class: "call-what" }, this.#name, this.#args),
      this.#time,
      this.#status,
      icon("open", "call-open"),
    ),
    this.#content,
  );
  element = h(
    "section",
    { class: "call" },
    this.#details,
    this.#progress,
    this.#message,
    this.#note,
    this.#question,
  );

  /** `answer(callId, "allow" | "deny")` gives a promise; null if nobody can be asked any more. */
  constructor(tool, answer) {
    this.#tool = tool;
    this.#answer = answer;
    this.#details.addEventListener("toggle", () => this.#fill());
    this.update();
  }

  update() {
    const tool = this.#tool;
    if (tool.version === this.#version) return;
    this.#version = tool.version;
    const { status } = tool;
    const [word, sentence] = CALL[status] ?? [UNDERWAY[status], ""];
    const before = this.element.dataset.status;
    this.element.dataset.status = tool.isVoid ? "void" : status;
    this.element.setAttribute("aria-label", `Tool ${tool.name}: ${word}`);
    if (before !== status) put(this.#mark, icon(MARKS[status]));
    this.#name.textContent = tool.name;
    this.#args.textContent = status === "asking" ? "" : `(${callText(tool.arguments)})`;
    this.#status.textContent = tool.isVoid ? "void" : word;
    this.#note.textContent = this.#special() || sentence || this.#why();
    this.#show();
    if (status === "asking" && before !== "asking") this.#ask();
    if (status !== "asking") this.#question.hidden = true;
    if (this.#details.open) this.#fill();
    this.tick();
  }

  /** Bring the clock up to date. */
  tick() {
    const { startedAt, endedAt, status } = this.#tool;
    if (status === "running") this.#time.textContent = duration(Date.now() / 1000 - (startedAt ?? this.#began / 1000));
    else this.#time.textContent = startedAt && endedAt ? duration(endedAt - startedAt) : "";
  }

  #special() {
    if (this.#tool.isIncomplete) return "It never ran: it was still being written.";
    return this.#tool.isOrphan ? "Effect unknown: its process ended while it ran." : "";
  }

  #why() {
    return this.#tool.status === "failed" ? (this.#tool.result ?? "").slice(0, 300) : "";
  }

  #show() {
    const { status, fraction, message } = this.#tool;
    const isRunning = status === "running";
    this.#progress.hidden = !isRunning;
    this.#progress.classList.toggle("is-unknown", fraction === null);
    this.#progress.setAttribute("aria-label", message || `${this.#tool.name} is running`);
    if (fraction === null) this.#progress.removeAttribute("aria-valuenow");
    else this.#progress.setAttribute("aria-valuenow", Math.round(fraction * 100));
    this.#bar.style.width = fraction === null ? "" : `${Math.max(0, Math.min(1, fraction)) * 100}%`;
    const percent = isRunning && fraction !== null ? `${Math.round(fraction * 100)} % ` : "";
    // What it last said stays, where the work is not known to be whole: it tells how far that went.
    const isTelling = isRunning || status === "interrupted" || status === "abandoned";
    this.#message.textContent = isTelling ? percent + (isRunning || !message ? message : `It had said: ${message}`) : "";
    this.#message.hidden = !this.#message.textContent;
    this.#note.hidden = !this.#note.textContent;
  }

  #fill() {
    if (!this.#details.open) return;
    const { arguments: args, argumentsText, result, attempts } = this.#tool;
    put(
      this.#content,
      h("h4", {}, "Arguments"),
      text(args === null ? argumentsText || "none" : JSON.stringify(args, null, 2), "Arguments"),
      result !== null && [h("h4", {}, isFinal(this.#tool.status) ? "Result" : "Result so far"), text(result, "Result")],
      attempts > 1 && h("p", { class: "quiet" }, `${attempts} attempts`),
    );
  }

  #ask() {
    const { name, arguments: args, id } = this.#tool;
    const error = h("p", { class: "question-error", role: "alert" });
    const choose = (answer) => async () => {
      for (const button of buttons) button.disabled = true;
      try {
        await this.#answer(id, answer);
        error.textContent = "";
      } catch (problem) {
        error.textContent = problem.message;
        for (const button of buttons) button.disabled = false;
      }
    };
    const buttons = [
      h("button", { type: "button", class: "button is-allow", onclick: choose("allow"), "aria-label": `Allow ${name}` }, "Allow"),
      h("button", { type: "button", class: "button", onclick: choose("deny"), "aria-label": `Deny ${name}` }, "Deny"),
    ];
    put(
      this.#question,
      h("p", { class: "question-text" }, "May ", h("strong", {}, name), " run with these arguments?"),
      text(JSON.stringify(args ?? {}, null, 2), `Arguments of ${name}`),
      h("div", { class: "question-answers" }, buttons),
      error,
    );
    this.#question.hidden = false;
  }
}

function text(content, label) {
  const more = content.length - LONGEST;
  const shown = more > 0 ? `${content.slice(0, LONGEST)}\n… ${more} more characters` : content;
  return h("pre", { class: "data", tabindex: 0, role: "region", "aria-label": label }, shown);
}
