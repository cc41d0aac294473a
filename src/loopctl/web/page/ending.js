/**
 * Owns showing how a run ended: the stop report, or why it failed and what to do next.
 *
 * Rules: says what the record says, in the words of words.js. A completed run says next to nothing.
 */

import { h, icon } from "./dom.js";
import { REASONS, STATUS, amount, callsByStatus, duration, failure, milliseconds, stopSentence, stragglerText } from "./words.js";

const NOTICEABLE = 0.5;

/** Give the end of `run` as an element. */
export function ending(run, { isOnOwnPage = false } = {}) {
  if (run.outcome === "completed") return isOnOwnPage ? null : completed(run);
  return run.outcome === "cancelled" ? stopped(run, isOnOwnPage) : failed(run, isOnOwnPage);
}

/** Say the end in one sentence. */
export function endingText(run) {
  if (run.outcome === "completed") return "The reply is complete.";
  if (run.outcome !== "cancelled") {
    const { title, text } = failure(run);
    return `${title}. ${text}`;
  }
  if (!run.record) return "Stopped.";
  const calls = callsByStatus(run.record.tool_calls).map(([status, names]) => `${names}: ${STATUS[status]}.`);
  return [`${stopSentence(run.record)}, after ${milliseconds(run.record.stop.latency)}.`, ...calls].join(" ");
}

function completed(run) {
  const seconds = run.endedAt && run.startedAt ? duration(run.endedAt - run.startedAt) : "";
  return h("p", { class: "ending-quiet" }, h("a", { href: link(run) }, seconds ? `Completed in ${seconds}` : "Completed"));
}

function stopped(run, isOnOwnPage) {
  const { record } = run;
  if (!record) return h("section", { class: "ending is-stopped", "aria-label": "Stop report" }, head("square", "Stopped"));
  const { stop } = record;
  return h(
    "section",
    { class: "ending is-stopped", "aria-label": "Stop report" },
    head(
      "square",
      stopSentence(record),
      h("span", { class: "latency" }, ` after ${milliseconds(stop.latency)} `),
      h("code", { class: "checkpoint" }, stop.checkpoint),
    ),
    h("dl", { class: "facts" }, facts(run, isOnOwnPage).map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value)))),
    !isOnOwnPage && foot(run, "Not part of the conversation: it goes on as if you had not asked."),
  );
}

function facts(run, isOnOwnPage) {
  const { record, waited } = run;
  const { stop } = record;
  const list = [["Had said", amount(record)]];
  if (record.tool_calls.length) list.push(["Tools", calls(record.tool_calls)]);
  if (record.stragglers.length) list.push(["Still running", lines(record.stragglers.map(stragglerText))]);
  if (stop.blocked_at) list.push(["Held up", `the event loop was blocked at ${stop.blocked_at}`]);
  // What the server measured begins when the stop reaches it; who pressed the button has waited longer.
  if (waited > stop.latency + NOTICEABLE) list.push(["You waited", `${duration(waited)}, the server was busy until then`]);
  const isOurs = stop.reason.message === REASONS.stop;
  if (stop.reason.message && (isOnOwnPage || !isOurs)) list.push(["Reason", stop.reason.message]);
  if (stop.reason.requested_by && isOnOwnPage) list.push(["By", stop.reason.requested_by]);
  const also = stop.also.filter(({ message }) => isOnOwnPage || message !== REASONS.abandon);
  if (also.length) list.push(["Also", lines(also.map((reason) => reason.message || reason.origin))]);
  return list;
}

const calls = (records) => h("ul", {}, callsByStatus(records).map(ofStatus));

const ofStatus = ([status, names]) => h("li", { class: `is-${status}` }, h("strong", {}, names), ` ${STATUS[status]}`);

const lines = (texts) => h("ul", {}, texts.map((text) => h("li", {}, text)));

function failed(run, isOnOwnPage) {
  const { title, text, next } = failure(run);
  const isMild = run.outcome === "max_turns" || run.outcome === "left";
  return h(
    "section",
    { class: `ending ${isMild ? "is-mild" : "is-failed"}`, "aria-label": title },
    head(isMild ? "square" : "cross", title),
    h("p", { class: "ending-text" }, text),
    run.record?.tool_calls.length ? h("div", { class: "ending-calls" }, calls(run.record.tool_calls)) : null,
    foot(run, next, isOnOwnPage),
  );
}

const head = (mark, title, ...more) => h("p", { class: "ending-head" }, icon(mark), h("span", {}, h("strong", {}, title), ...more));

function foot(run, text, isOnOwnPage = false) {
  const isKnown = run.id && run.outcome !== "unknown" && !isOnOwnPage;
  return h("p", { class: "ending-foot" }, h("span", {}, text), isKnown && h("a", { href: link(run) }, "Details of this run"));
}

const link = (run) => `#/runs/${encodeURIComponent(run.id)}`;
