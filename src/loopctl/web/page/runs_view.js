/**
 * Owns the list of runs: by outcome, newest first, with the plot of how long stops took.
 */

import { h, icon, put } from "./dom.js";
import { histogram } from "./histogram.js";
import { OUTCOME, duration, milli, moment, sentence, shorten } from "./words.js";

const FILTERS = ["", "completed", "cancelled", "failed", "max_turns", "interrupted", "running"];
const PAGE = 50;

export class RunsView {
  #api;
  #asked = 0;
  #filters = h("nav", { class: "filters", "aria-label": "By outcome" });
  #plot = h("div", {});
  #table = h("div", { class: "runs-table" });
  element = h(
    "section",
    { class: "page", "aria-labelledby": "runs-title" },
    h("h2", { id: "runs-title", tabindex: -1 }, "Runs"),
    h("section", { class: "panel", "aria-labelledby": "plot-title" },
      h("h3", { id: "plot-title" }, "How fast a stop lands"),
      h("p", { class: "quiet" }, "From the cancel to the run's end, by the checkpoint that noticed it."),
      this.#plot),
    this.#filters,
    this.#table,
  );

  constructor(api) {
    this.#api = api;
  }

  /** Show the runs of `outcome`, all if it is empty. */
  async show(outcome) {
    const asked = (this.#asked += 1);
    put(this.#filters, FILTERS.map((filter) => filterLink(filter, filter === outcome)));
    if (!this.#table.childNodes.length) put(this.#table, h("p", { class: "empty" }, "Loading…"));
    try {
      const [page, latency] = await Promise.all([this.#page(outcome), this.#api.json("/stats/latency")]);
      if (asked !== this.#asked) return;
      put(this.#plot, histogram(latency.checkpoints));
      this.#list(page, outcome);
    } catch (error) {
      if (asked === this.#asked) put(this.#table, this.#problem(error, outcome));
    }
  }

  #page(outcome, before = null) {
    const query = new URLSearchParams({ limit: PAGE });
    if (outcome) query.set("outcome", outcome);
    if (before) query.set("before", before);
    return this.#api.json(`/runs?${query}`);
  }

  #problem(error, outcome) {
    const again = h("button", { type: "button", class: "button", onclick: () => this.show(outcome) }, "Try again");
    return h("div", { class: "notice", role: "alert" }, h("p", {}, sentence(error.message)), again);
  }

  #list(page, outcome) {
    if (!page.runs.length) {
      put(this.#table, h("p", { class: "empty" }, outcome ? `No run is ${OUTCOME[outcome]}.` : "No runs yet. They begin in the chat."));
      return;
    }
    const body = h("tbody", {}, page.runs.map(row));
    const more = h("button", { type: "button", class: "button more" }, "Older runs");
    more.hidden = !page.next;
    let next = page.next;
    more.addEventListener("click", async () => {
      more.disabled = true;
      try {
        const older = await this.#page(outcome, next);
        body.append(...older.runs.map(row));
        next = older.next;
        more.hidden = !next;
      } finally {
        more.disabled = false;
      }
    });
    const heads = ["Outcome", "Asked", "Stopped at", "After", "Took", "Begun"];
    put(
      this.#table,
      h("table", { class: "runs" },
        h("caption", { class: "unseen" }, outcome ? `Runs that are ${OUTCOME[outcome]}` : "All runs"),
        h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
        body),
      more,
    );
  }
}

function filterLink(outcome, isCurrent) {
  const href = outcome ? `#/runs?outcome=${outcome}` : "#/runs";
  return h("a", { href, "aria-current": isCurrent ? "true" : null }, outcome ? OUTCOME[outcome] : "all");
}

function row(run) {
  const stop = run.record?.stop;
  const took = run.ended_at && run.started_at ? duration(run.ended_at - run.started_at) : "";
  return h(
    "tr",
    {},
    h("td", {}, badge(run.outcome)),
    h("th", { scope: "row" }, h("a", { href: `#/runs/${encodeURIComponent(run.id)}` }, shorten(run.input ?? "", 90) || run.id)),
    h("td", { "data-label": "Stopped at" }, stop && h("code", {}, stop.checkpoint)),
    h("td", { "data-label": "After", class: "number" }, stop && milli(stop.latency)),
    h("td", { "data-label": "Took", class: "number" }, took),
    h("td", { "data-label": "Begun", class: "number" }, run.started_at ? moment(run.started_at) : ""),
  );
}

const MARKS = { completed: "check", cancelled: "square", failed: "cross", max_turns: "square", interrupted: "slash", running: "dot" };

/** An outcome, in a word and a mark. */
export function badge(outcome) {
  return h("span", { class: `badge is-${outcome}` }, icon(MARKS[outcome] ?? "question"), OUTCOME[outcome] ?? outcome);
}
