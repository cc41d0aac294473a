import assert from "node:assert/strict";
import { test } from "node:test";

import { WebRun, fromStored } from "../../../../src/loopctl/web/page/live.js";
import { callsByStatus, failure, place, stopSentence } from "../../../../src/loopctl/web/page/words.js";

const call = (id, status, more = {}) => ({ id, name: "save", arguments: { a: 1 }, status, result: null, attempts: 1, started_at: 10, ended_at: 11, ...more });
const custom = (name, value) => ({ type: "CUSTOM", name: `loopctl.${name}`, value });
const said = (id, delta) => ({ type: "TEXT_MESSAGE_CONTENT", messageId: id, delta });

function record({ outcome = "cancelled", calls = [], blocks = [], checkpoint = "TOOL_CALL" } = {}) {
  return {
    id: "r1", outcome, input: "hi", started_at: 9, ended_at: 12, error: null, stragglers: [], tool_calls: calls,
    turns: [{ number: 1, reply: { role: "assistant", blocks } }],
    stop: { checkpoint, latency: 0.002, reason: { origin: "user", message: "", requested_by: "" }, also: [], blocked_at: "" },
  };
}

function played(...events) {
  const run = new WebRun("hi");
  events.forEach((event, at) => run.take(event, at + 1));
  return run;
}

test("text and thinking grow item by item, in their order", () => {
  const run = played(
    { type: "REASONING_MESSAGE_CONTENT", messageId: "m1", delta: "hm" },
    { type: "REASONING_MESSAGE_END", messageId: "m1" },
    { type: "TEXT_MESSAGE_START", messageId: "m2" },
    said("m2", "a"),
    said("m2", "b"),
    { type: "TEXT_MESSAGE_END", messageId: "m2" },
  );
  assert.deepEqual(run.items.map(({ kind, text, isOpen }) => [kind, text, isOpen]), [["thinking", "hm", false], ["text", "ab", false]]);
});

test("a tool card follows its call from the first fragment to its true status", () => {
  const run = played({ type: "TOOL_CALL_START", toolCallId: "c", toolCallName: "save" }, { type: "TOOL_CALL_ARGS", toolCallId: "c", delta: '{"a":' });
  const [tool] = run.tools;
  assert.equal(tool.status, "coming");
  run.take({ type: "TOOL_CALL_ARGS", toolCallId: "c", delta: "1}" });
  run.take({ type: "TOOL_CALL_END", toolCallId: "c" });
  assert.deepEqual(tool.arguments, { a: 1 });
  run.take(custom("ToolStarted", { call: call("c", "not_started", { ended_at: null }) }));
  assert.equal(tool.status, "running");
  run.take(custom("ApprovalRequested", { call: call("c", "not_started") }));
  assert.deepEqual(run.asking, [tool]);
  run.take(custom("ApprovalEnded", { call: call("c", "not_started"), answer: "allowed" }));
  run.take(custom("ToolProgress", { id: "c", name: "save", message: "half", fraction: 0.5 }));
  assert.deepEqual([tool.status, tool.message, tool.fraction], ["running", "half", 0.5]);
  run.take(custom("ToolFinished", { call: call("c", "completed", { result: "ok" }) }));
  assert.deepEqual([tool.status, tool.result], ["completed", "ok"]);
});

test("a withdrawn question is no answer, and the record says what became of the call", () => {
  const run = played(custom("ApprovalRequested", { call: call("c", "not_started") }), custom("ApprovalEnded", { call: call("c", "not_started"), answer: "withdrawn" }));
  assert.equal(run.tools[0].status, "closing");
  run.take(custom("RunEnded", { run: record({ calls: [call("c", "not_started", { started_at: null, ended_at: null })] }) }));
  assert.equal(run.tools[0].status, "not_started");
});

test("a call that was still being written when the run ended never ran", () => {
  const run = played({ type: "TOOL_CALL_START", toolCallId: "c", toolCallName: "save" }, custom("RunEnded", { run: record() }));
  assert.deepEqual([run.tools[0].status, run.tools[0].isIncomplete], ["not_started", true]);
});

test("an attempt that failed is void, and nothing before it", () => {
  const run = played(said("m1", "first turn"), custom("TurnEnded", {}), said("m2", "bad"), custom("AttemptReset", { number: 2 }), said("m3", "good"));
  assert.deepEqual(run.items.map((item) => item.isVoid), [false, true, false]);
});

test("an event that comes again is not taken again", () => {
  const run = new WebRun();
  run.take(said("m", "a"), 1);
  run.take(said("m", "a"), 1);
  run.take(said("m", "b"), 2);
  assert.equal(run.items[0].text, "ab");
  assert.equal(run.lastEventId, 2);
});

test("a stream that fell behind has not failed", () => {
  const run = played({ type: "RUN_ERROR", code: "events_missed", message: "…" });
  assert.equal(run.isOver, false);
});

test("the record shows what the stream had shown", () => {
  const blocks = [{ type: "thinking", text: "hm" }, { type: "text", text: "a" }, { type: "tool_call", id: "c", name: "save", arguments: { a: 1 } }];
  const ended = record({ blocks, calls: [call("c", "interrupted")] });
  const live = played(
    { type: "REASONING_MESSAGE_CONTENT", messageId: "m1", delta: "hm" },
    said("m2", "a"),
    { type: "TOOL_CALL_START", toolCallId: "c", toolCallName: "save" },
    custom("RunEnded", { run: ended }),
    { type: "RUN_FINISHED", outcome: { type: "cancelled" } },
  );
  const stored = fromStored({ id: "r1", outcome: "cancelled", input: "hi", record: ended });
  const shown = (run) => run.items.map(({ kind, text, status, arguments: args }) => [kind, text, status, args]);
  assert.deepEqual(shown(live), shown(stored));
  assert.equal(live.outcome, "cancelled");
});

test("a run whose process died has the calls that had begun, and no invented end", () => {
  const run = fromStored({ id: "r1", outcome: "interrupted", input: "hi", record: null, calls: [call("c", "abandoned", { ended_at: null })] });
  assert.deepEqual([run.outcome, run.tools[0].status], ["interrupted", "abandoned"]);
  assert.match(failure(run).next, /unknown/);
});

test("where a stop met the run is said in words", () => {
  const at = (...calls) => place(record({ calls }));
  assert.equal(at(call("a", "completed"), call("b", "interrupted")), "in the tool save");
  assert.equal(at(call("a", "completed"), call("b", "not_started")), "before the tool save began");
  assert.equal(at(call("a", "completed")), "as a tool ended");
  assert.equal(place(record({ checkpoint: "STREAM_EVENT" })), "while waiting for the reply");
  const begun = record({ checkpoint: "STREAM_EVENT", blocks: [{ type: "text", text: "a" }] });
  assert.equal(stopSentence(begun), "Stopped on request in the middle of the reply");
});

test("calls are counted by status, and never said to have had no effect", () => {
  const calls = ["completed", "abandoned", "interrupted", "completed"].map((status, at) => call(`c${at}`, status));
  assert.deepEqual(callsByStatus(calls), [["completed", "save, save"], ["interrupted", "save"], ["abandoned", "save"]]);
});
