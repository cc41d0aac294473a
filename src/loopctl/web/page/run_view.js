/**
 * Owns showing one run in the conversation: what was asked, and everything that came of it.
 *
 * Rules: an item keeps its element for ever; text that did not reach its end stays, and is marked.
 */

import { h, icon, put } from "./dom.js";
import { ending } from "./ending.js";
import { Prose } from "./prose.js";
import { ToolCard } from "./tool_card.js";

export class RunView {
  #run;
  #answer;
  #shown = new Map();
  #items = h("div", { class: "items" });
  #end = h("div", { class: "end" });
  #ended = null;
  element;

  constructor(run, answer) {
    this.#run = run;
    this.#answer = answer;
    this.element = h(
      "article",
      { class: "run", "aria-label": "Message and answer" },
      h("div", { class: "asked" }, h("h3", { class: "unseen" }, "You"), h("p", { class: "asked-text" }, run.input)),
      h("div", { class: "answer" }, h("h3", { class: "unseen" }, "Answer"), this.#items, this.#end),
    );
    this.update();
  }

  update() {
    const { items } = this.#run;
    for (const known of this.#shown.keys()) {
      if (items.includes(known)) continue;
      this.#shown.get(known).element.remove();
      this.#shown.delete(known);
    }
    for (const item of items) {
      let view = this.#shown.get(item);
      if (!view) {
        view = item.kind === "tool" ? new ToolCard(item, this.#answer) : new TextView(item);
        this.#shown.set(item, view);
        this.#items.append(view.element);
      }
      view.update();
    }
    this.#finish();
  }

  /** Bring the clocks up to date. */
  tick() {
    for (const view of this.#shown.values()) view.tick?.();
  }

  #finish() {
    const key = `${this.#run.outcome} ${this.#run.record !== null} ${this.#run.isCut}`;
    if (key === this.#ended) return;
    this.#ended = key;
    this.element.dataset.outcome = this.#run.outcome;
    if (!this.#run.isOver) {
      put(this.#end, this.#run.isCut && h("p", { class: "ending-quiet" }, "Some of it was missed. The whole is shown when it has ended."));
      return;
    }
    this.#markUnfinished();
    put(this.#end, ending(this.#run));
  }

  /** The last text of a run that did not complete is as far as it came. */
  #markUnfinished() {
    const last = this.#run.items.at(-1);
    if (this.#run.outcome === "completed" || last?.kind !== "text" || !last.text) return;
    this.#shown.get(last)?.cut(this.#run.outcome === "cancelled" ? "stopped" : "cut off");
  }
}

/** Text, or thinking, which is folded. */
class TextView {
  #item;
  #version = -1;
  #prose = new Prose();
  #label = h("span", {}, "Thinking…");
  element;

  constructor(item) {
    this.#item = item;
    this.element =
      item.kind === "thinking"
        ? h("details", { class: "thinking" }, h("summary", {}, this.#label), this.#prose.element)
        : h("div", { class: "said" }, this.#prose.element);
  }

  update() {
    if (this.#item.version === this.#version) return;
    this.#version = this.#item.version;
    this.#prose.show(this.#item.text);
    this.#label.textContent = this.#item.isOpen ? "Thinking…" : "Thought";
    this.element.classList.toggle("is-open", this.#item.isOpen);
    if (this.#item.isVoid && !this.element.classList.contains("is-void")) {
      this.element.classList.add("is-void");
      this.element.prepend(h("p", { class: "void-note" }, "That attempt failed: what it said is void."));
    }
  }

  cut(word) {
    if (this.element.classList.contains("is-cut")) return;
    this.element.classList.add("is-cut");
    this.element.append(h("span", { class: "cut-mark" }, icon("square"), word));
  }
}
