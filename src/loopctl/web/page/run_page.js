/**
 * Owns the page of one run: how it ended, when what happened, and every call with its true status.
 *
 * Rules: shows the record; of a run that goes on, what is known, and asks again.
 */

import { h, put } from "./dom.js";
import { ending } from "./ending.js";
import { fromStored } from "./live.js";
import { RunView } from "./run_view.js";
import { badge } from "./runs_view.js";
import { CALL, duration, milliseconds, moment, sentence, shorten } from "./words.js";

const AGAIN = 1000;

export class RunPage {
  #api;
  #asked = 0;
  #timer = null;
  element = h("section", { class: "page", "aria-label": "Run" });

  constructor(api) {
    this.#api = api;
  }

  async show(id) {
    this.leave();
    const asked = this.#asked;
    try {
      const stored = await this.#api.json(`/runs/${encodeURIComponent(id)}`);
      if (asked !== this.#asked) return;
      this.#draw(stored);
      if (stored.outcome === "running") this.#timer = setTimeout(() => this.show(id), AGAIN);
    } catch (error) {
      if (asked === this.#asked) this.#missing(id, error);
    }
  }

  /** Nobody looks any more. */
  leave() {
    this.#asked += 1;
    clearTimeout(this.#timer);
  }

  #missing(id, error) {
    const unknown = `The server knows no run ${id}. It may have been started without a store.`;
    const text = error.status === 404 ? unknown : sentence(error.message);
    put(
      this.element,
      h("h2", { tabindex: -1 }, "Run"),
      h("div", { class: "notice", role: "alert" }, h("p", {}, text), h("a", { class: "button", href: "#/runs" }, "All runs")),
    );
  }

  #draw(stored) {
    const run = fromStored(stored);
    const { record } = stored;
    put(
      this.element,
      h("p", { class: "back" }, h("a", { href: "#/runs" }, "All runs")),
      h("h2", { tabindex: -1 }, shorten(stored.input || "Run", 300)),
      h("p", { class: "run-facts" }, badge(stored.outcome), ...facts(stored)),
      run.isOver && ending(run, { isOnOwnPage: true }),
      record && panel("Timeline", timeline(record)),
      run.items.length ? panel("What it said and did", h("div", { class: "transcript" }, transcript(run))) : null,
      raw(record ?? stored),
    );
  }
}

function facts(stored) {
  const { record } = stored;
  const usage = record?.usage;
  const tokens = usage?.output_tokens == null ? null : `${usage.is_partial ? "at least " : ""}${usage.output_tokens} tokens`;
  return [
    stored.started_at && h("span", {}, moment(stored.started_at)),
    stored.started_at && stored.ended_at && h("span", {}, duration(stored.ended_at - stored.started_at)),
    record?.turns.length ? h("span", {}, record.turns.at(-1).model) : null,
    tokens && h("span", {}, tokens),
    stored.session_id && h("a", { href: `#/chat/${encodeURIComponent(stored.session_id)}` }, "Its conversation"),
  ];
}

function raw(value) {
  const text = { class: "data", tabindex: 0, role: "region", "aria-label": "The record as JSON" };
  return h("details", { class: "panel raw" }, h("summary", {}, "The record"), h("pre", text, JSON.stringify(value, null, 2)));
}

const panel = (title, ...content) => h("section", { class: "panel", "aria-label": title }, h("h3", {}, title), ...content);

function transcript(run) {
  const view = new RunView(run, null);
  view.element.querySelector(".asked").remove();
  view.element.querySelector(".end").remove();
  return view.element;
}

function timeline(record) {
  const begin = record.started_at;
  const whole = Math.max(record.ended_at - begin, 0.001);
  const rows = record.turns.map((turn) => ({
    name: `Turn ${turn.number}`,
    kind: "turn",
    from: turn.started_at,
    to: replyEnd(turn, record),
    word: turn.is_whole ? "model" : "model, not to its end",
  }));
  for (const call of record.tool_calls) {
    if (call.started_at === null) continue;
    rows.push({
      name: call.name,
      kind: call.status,
      from: call.started_at,
      to: call.ended_at ?? record.ended_at,
      word: CALL[call.status][0],
      isOpen: call.ended_at === null,
    });
  }
  rows.sort((a, b) => a.from - b.from);
  const stop = record.stop && stopAt(record, begin, whole);
  const ticks = ["0", duration(whole / 2), duration(whole)].map((tick) => h("span", {}, tick));
  return h(
    "div",
    { class: "timeline" },
    h("ol", { class: "timeline-rows" }, rows.map((row) => timelineRow(row, begin, whole))),
    stop && stopLine(stop),
    h("div", { class: "timeline-axis", "aria-hidden": "true" }, ticks),
    stop && h("p", { class: "timeline-stop quiet" }, h("span", { class: "key-stop", "aria-hidden": "true" }), stop.text),
  );
}

function stopAt(record, begin, whole) {
  const after = Math.max(0, record.ended_at - record.stop.latency - begin);
  const ended = `it ended ${milliseconds(record.stop.latency)} later`;
  return { at: after / whole, text: `Cancelled ${duration(after)} after the beginning; ${ended}.` };
}

/** A turn lasts until its tools have ended; its reply until the first of them began. */
function replyEnd(turn, record) {
  const ids = new Set(turn.reply.blocks.filter((block) => block.type === "tool_call").map((block) => block.id));
  const begun = record.tool_calls.filter((call) => ids.has(call.id) && call.started_at !== null);
  return Math.min(turn.ended_at, ...begun.map((call) => call.started_at));
}

function timelineRow(row, begin, whole) {
  const share = (value) => Math.min(1, Math.max(0, value / whole)) * 100;
  const left = share(row.from - begin);
  const bar = h("span", { class: `timeline-bar is-${row.kind}${row.isOpen ? " is-open" : ""}` });
  bar.style.left = `${left}%`;
  bar.style.width = `${Math.max(0.4, share(row.to - begin) - left)}%`;
  return h(
    "li",
    { class: "timeline-row" },
    h("span", { class: "timeline-name" }, row.name),
    h("span", { class: "timeline-track" }, bar),
    h("span", { class: "timeline-word" }, `${row.word}, ${duration(row.to - row.from)}${row.isOpen ? " and on" : ""}`),
  );
}

function stopLine({ at }) {
  const mark = h("span", { class: "timeline-mark", "aria-hidden": "true" });
  mark.style.left = `${Math.min(1, at) * 100}%`;
  return h("div", { class: "timeline-marks" }, h("span", {}), h("div", { class: "timeline-track is-bare" }, mark), h("span", {}));
}
