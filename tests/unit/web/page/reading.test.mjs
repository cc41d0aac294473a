import assert from "node:assert/strict";
import { test } from "node:test";

import { axisOf, position, quantile, rows, tickText } from "../../../../src/loopctl/web/page/latency.js";
import { SseReader } from "../../../../src/loopctl/web/page/sse.js";

test("events are the same wherever the stream is cut", () => {
  const text = ": keep-alive\n\nid: 1\ndata: {\"a\":\n data: 1}\n\nid: 2\r\ndata: one\r\ndata: two\r\n\r\ndata:three\n\n";
  const whole = new SseReader().push(text);
  assert.deepEqual(whole, [{ id: "1", data: '{"a":' }, { id: "2", data: "one\ntwo" }, { id: "2", data: "three" }]);
  for (let size = 1; size < 9; size += 1) {
    const reader = new SseReader();
    const events = [];
    for (let at = 0; at < text.length; at += size) events.push(...reader.push(text.slice(at, at + size)));
    assert.deepEqual(events, whole, `in pieces of ${size}`);
  }
});

test("an event without its empty line has not come", () => {
  assert.deepEqual(new SseReader().push("data: half\n"), []);
});

test("the axis has whole decades that hold every value", () => {
  const axis = axisOf([0.0002, 0.0011, 1.002]);
  assert.deepEqual(axis.ticks.map(tickText), ["0.1 ms", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]);
  assert.deepEqual(axisOf([0.002]).ticks.map(tickText), ["1 ms", "10 ms"]);
  assert.equal(position(0.0001, axis), 0);
  assert.equal(position(10, axis), 1);
  assert.equal(position(0, axis), 0);
});

test("each stop is in one bin, and the checkpoint with most stops comes first", () => {
  const { rows: list } = rows({ WAVE: [0.01], TOOL_CALL: [0.5, 1, 0.0001, 0], STREAM_EVENT: [] });
  assert.deepEqual(list.map(({ checkpoint, count }) => [checkpoint, count]), [["TOOL_CALL", 4], ["WAVE", 1]]);
  for (const row of list) assert.equal(row.bins.reduce((sum, count) => sum + count), row.count);
  assert.deepEqual(rows({}).rows, []);
});

test("quantiles are values that were seen", () => {
  const sorted = [1, 2, 3, 4];
  assert.equal(quantile(sorted, 0.5), 2);
  assert.equal(quantile(sorted, 0.95), 4);
  assert.equal(quantile([7], 0.5), 7);
});
