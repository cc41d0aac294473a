import assert from "node:assert/strict";
import { test } from "node:test";

import { Refused, Unreachable } from "../../../../src/loopctl/web/page/api.js";
import { Follower } from "../../../../src/loopctl/web/page/follow.js";
import { WebRun } from "../../../../src/loopctl/web/page/live.js";

const said = (number, delta) => `id: ${number}\ndata: ${JSON.stringify({ type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta })}\n\n`;
const finished = (number) => `id: ${number}\ndata: {"type":"RUN_FINISHED","outcome":{"type":"success"}}\n\n`;
const refused = (status) => new Refused(status, { error: { code: "x", message: "no" } });
const record = { id: "r1", outcome: "completed", input: "hi", started_at: 1, ended_at: 2, error: null, tool_calls: [], turns: [
  { number: 1, reply: { blocks: [{ type: "text", text: "whole" }] } },
] };

const HANGS = "hangs";

/** A server that answers by script: each answer is texts of a stream, a JSON object, or an error to throw. */
class Script {
  asked = [];
  #answers;

  constructor(...answers) {
    this.#answers = answers;
  }

  #next(path, options) {
    this.asked.push([options.method ?? "GET", path, options.headers?.["Last-Event-ID"] ?? null, options.body?.urgency ?? null]);
    const answer = this.#answers.shift();
    if (answer instanceof Error) throw answer;
    return answer;
  }

  async open(path, options) {
    const texts = this.#next(path, options);
    if (texts === HANGS) {
      return new Promise((_, reject) => options.signal.addEventListener("abort", () => reject(new DOMException("", "AbortError"))));
    }
    const body = new Blob(texts).stream();
    return { body, headers: new Headers({ "X-Run-Id": "r1" }) };
  }

  async json(path, options) {
    return this.#next(path, options);
  }
}

function follower(...answers) {
  const api = new Script(...answers);
  const run = new WebRun("hi", "c1");
  const states = [];
  const made = new Follower(api, run, () => {
    if (states.at(-1) !== made.state) states.push(made.state);
    if (made.state === "lost") setImmediate(() => made.retry()); // nobody waits in a test
  });
  return { api, run, states, follower: made };
}

test("a stream that ends with the run is followed once", async () => {
  const { api, run, follower: it } = follower([said(1, "a"), finished(2)]);
  await it.begin("s1", "hi");
  assert.deepEqual([run.id, run.outcome, run.items[0].text], ["r1", "completed", "a"]);
  assert.equal(api.asked.length, 1);
});

test("a stream that broke is joined again after the last event that was seen", async () => {
  const { api, run, states, follower: it } = follower([said(1, "a")], new Unreachable(), [said(1, "a"), said(2, "b"), finished(3)]);
  await it.begin("s1", "hi");
  assert.equal(run.items[0].text, "ab");
  assert.deepEqual(api.asked.slice(1), [["GET", "/runs/r1/events", "1", null], ["GET", "/runs/r1/events", "1", null]]);
  assert.deepEqual(states, ["live", "lost", "live"]);
});

test("what the server no longer has of the stream it has in the record", async () => {
  const { run, follower: it } = follower([said(1, "a")], refused(410), { outcome: "completed", record });
  await it.begin("s1", "hi");
  assert.deepEqual([run.outcome, run.items[0].text], ["completed", "whole"]);
});

test("a run that the server does not know is unknown, and nothing is invented", async () => {
  const { run, follower: it } = follower([said(1, "a")], refused(404), refused(404));
  await it.begin("s1", "hi");
  assert.deepEqual([run.outcome, run.items[0].text, run.record], ["unknown", "a", null]);
});

test("a run whose process died is interrupted", async () => {
  const { run, follower: it } = follower([said(1, "a")], refused(404), { outcome: "interrupted", record: null, calls: [] });
  await it.begin("s1", "hi");
  assert.equal(run.outcome, "interrupted");
});

test("who may not ask is told so and is not asked again and again", async () => {
  const { follower: it } = follower([said(1, "a")], refused(401));
  await assert.rejects(it.begin("s1", "hi"), (error) => error.status === 401);
});

test("a message that was not taken is an error, and a stop of it asks nobody", async () => {
  const { api, follower: it } = follower(refused(409));
  const stop = it.stop("stop");
  await assert.rejects(it.begin("s1", "hi"), (error) => error.status === 409);
  assert.equal(await stop, null);
  assert.equal(api.asked.length, 1);
});

test("a stop that could not be delivered is tried again, with its urgency", async () => {
  const { api, run, follower: it } = follower(new Unreachable(), { state: "ended" });
  run.id = "r1";
  const stop = it.stop("abandon");
  setTimeout(() => it.retry(), 5);
  assert.deepEqual(await stop, { state: "ended" });
  assert.deepEqual(api.asked, [["POST", "/runs/r1/cancel", null, "abandon"], ["POST", "/runs/r1/cancel", null, "abandon"]]);
});

test("a stop that comes too late is no error", async () => {
  const { run, follower: it } = follower(refused(409));
  run.id = "r1";
  assert.equal(await it.stop("stop"), null);
});

test("who leaves asks nothing more", async () => {
  const { api, run, follower: it } = follower([said(1, "a")], HANGS);
  const going = it.begin("s1", "hi");
  while (api.asked.length < 2) await new Promise(setImmediate);
  it.leave();
  await going;
  assert.equal(run.isOver, false);
  assert.equal(api.asked.length, 2);
});
