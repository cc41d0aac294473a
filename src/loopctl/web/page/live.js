/**
 * Owns what is known of one run, as its AG-UI events tell it, or as its record does.
 *
 * Rules: pure, no DOM, no network; both ways give the same shape, so that a reload shows what a stream had shown. Each
 * item counts its changes in `version`. A tool card says what `loopctl.ToolFinished` or the record says, never a guess:
 * what has no word yet when the run ends is what the record says it is.
 */

const FINAL = new Set(["completed", "failed", "denied", "not_started", "interrupted", "abandoned"]);

export const isFinal = (status) => FINAL.has(status);

export class WebRun {
  id = null;
  clientId = null;
  input = "";
  /** "running", then "completed" | "cancelled" | "max_turns" | "failed" | "interrupted" | "unknown" (nobody can tell) | "left". */
  outcome = "running";
  /** The JSON object of the run, once it has ended. */
  record = null;
  /** What RUN_ERROR said. */
  error = null;
  items = [];
  /** The number of the last event seen: where a rejoined stream goes on. */
  lastEventId = 0;
  startedAt = null;
  endedAt = null;
  /** What it waits for before the next request: {why, until} or null. */
  wait = null;
  /** Seconds from the press of Stop on this page to the end; null if nobody pressed it here. */
  waited = null;
  /** True if the beginning of the stream was not to be had. */
  isCut = false;

  #open = new Map();
  #turn = 0;

  constructor(input = "", clientId = null) {
    this.input = input;
    this.clientId = clientId;
  }

  get isOver() {
    return this.outcome !== "running";
  }

  /** The tool cards. */
  get tools() {
    return this.items.filter((item) => item.kind === "tool");
  }

  /** The calls that somebody is asked about. */
  get asking() {
    return this.tools.filter((tool) => tool.status === "asking");
  }

  /** Take one event of the stream; `number` is its SSE id. Events that were seen before are dropped. */
  take(event, number = 0) {
    if (number && number <= this.lastEventId) return;
    if (number) this.lastEventId = number;
    if (event.type === "CUSTOM") this.#custom(event.name ?? "", event.value ?? {});
    else HANDLERS[event.type]?.call(this, event);
  }

  /** Take the record of the run: the last word about everything. */
  end(record) {
    this.record = record;
    this.id = record.id ?? this.id;
    this.outcome = record.outcome;
    this.startedAt = record.started_at;
    this.endedAt = record.ended_at;
    if (record.error) this.error = record.error;
    const calls = new Map(record.tool_calls.map((call) => [call.id, call]));
    for (const tool of this.tools) {
      const call = calls.get(tool.id);
      if (call) this.#call(tool, call);
      // Recorded is only a call whose arguments had arrived whole; of another one nothing was begun.
      else if (!isFinal(tool.status)) change(tool, { status: "not_started", isIncomplete: true });
      calls.delete(tool.id);
    }
    for (const call of calls.values()) this.#call(this.#tool(call.id, call.name), call);
    this.#close();
  }

  /** Say that nobody can tell how the run ended. */
  lose(outcome = "unknown") {
    this.outcome = outcome;
    for (const tool of this.tools) if (!isFinal(tool.status)) change(tool, { status: "unknown" });
    this.#close();
  }

  /** Start over: what is streamed next begins with the first event. */
  rewind() {
    this.items = [];
    this.lastEventId = 0;
    this.#open.clear();
    this.#turn = 0;
  }

  #close() {
    this.wait = null;
    for (const item of this.items) if (item.isOpen) change(item, { isOpen: false });
    this.#open.clear();
  }

  #add(item) {
    const whole = { version: 0, isOpen: true, isVoid: false, ...item };
    this.items.push(whole);
    return whole;
  }

  #tool(id, name) {
    const known = this.items.findLast((item) => item.kind === "tool" && item.id === id);
    if (known) return known;
    return this.#add({
      kind: "tool", id, name, status: "coming", argumentsText: "", arguments: null, message: "", fraction: null,
      result: null, startedAt: null, endedAt: null, attempts: 0, isIncomplete: false,
      isOrphan: false,
    });
  }

  #call(tool, call, status = call.status) {
    change(tool, {
      name: call.name,
      arguments: call.arguments,
      status,
      result: call.result ?? tool.result,
      startedAt: call.started_at ?? tool.startedAt,
      endedAt: call.ended_at,
      attempts: call.attempts,
      isOpen: !isFinal(status),
    });
  }

  _text(kind, id, delta) {
    let item = this.#open.get(id);
    if (!item) {
      item = this.#add({ kind, id, text: "" });
      this.#open.set(id, item);
    }
    this.wait = null;
    if (delta) change(item, { text: item.text + delta });
  }

  _textEnd(id) {
    const item = this.#open.get(id);
    if (item) change(item, { isOpen: false });
    this.#open.delete(id);
  }

  _toolStart(event) {
    this.wait = null;
    this.#tool(event.toolCallId, event.toolCallName);
  }

  _toolArgs(event) {
    const tool = this.#tool(event.toolCallId, "");
    change(tool, { argumentsText: tool.argumentsText + event.delta });
  }

  _toolEnd(event) {
    const tool = this.#tool(event.toolCallId, "");
    change(tool, { arguments: tool.arguments ?? parsed(tool.argumentsText) });
  }

  _toolResult(event) {
    const tool = this.#tool(event.toolCallId, "");
    if (typeof event.content === "string") change(tool, { result: event.content });
  }

  #custom(name, value) {
    const call = value.call;
    switch (name) {
      case "loopctl.RunStarted":
        this.id = value.run_id;
        break;
      case "loopctl.TurnStarted":
        this.#turn = this.items.length;
        break;
      case "loopctl.TurnEnded":
        this.#turn = this.items.length;
        break;
      case "loopctl.AttemptReset":
        for (const item of this.items.slice(this.#turn)) change(item, { isVoid: true, isOpen: false });
        this.#open.clear();
        this.#turn = this.items.length;
        break;
      case "loopctl.WaitStarted":
        this.wait = { why: value.why, seconds: value.seconds };
        break;
      case "loopctl.ToolStarted":
        this.#call(this.#tool(call.id, call.name), call, "running");
        break;
      case "loopctl.ToolProgress":
        change(this.#tool(value.id, value.name), { message: value.message, fraction: value.fraction });
        break;
      case "loopctl.ToolFinished":
        this.#call(this.#tool(call.id, call.name), call);
        break;
      case "loopctl.ApprovalRequested":
        this.#call(this.#tool(call.id, call.name), call, "asking");
        break;
      case "loopctl.ApprovalEnded":
        this.#answered(this.#tool(call.id, call.name), value.answer);
        break;
      case "loopctl.RunEnded":
        this.end(value.run);
        break;
    }
  }

  #answered(tool, answer) {
    if (tool.status !== "asking") return;
    // "denied" gets its status from ToolFinished, "withdrawn" from the closing: until then it is nothing more than asked.
    change(tool, { status: answer === "allowed" ? "running" : "closing", answer });
  }
}

const HANDLERS = {
  TEXT_MESSAGE_START(event) { this._text("text", event.messageId, ""); },
  TEXT_MESSAGE_CONTENT(event) { this._text("text", event.messageId, event.delta); },
  TEXT_MESSAGE_END(event) { this._textEnd(event.messageId); },
  REASONING_MESSAGE_START(event) { this._text("thinking", `r:${event.messageId}`, ""); },
  REASONING_MESSAGE_CONTENT(event) { this._text("thinking", `r:${event.messageId}`, event.delta); },
  REASONING_MESSAGE_END(event) { this._textEnd(`r:${event.messageId}`); },
  TOOL_CALL_START(event) { this._toolStart(event); },
  TOOL_CALL_ARGS(event) { this._toolArgs(event); },
  TOOL_CALL_END(event) { this._toolEnd(event); },
  TOOL_CALL_RESULT(event) { this._toolResult(event); },
  RUN_FINISHED(event) {
    if (!this.isOver) this.lose(event.outcome?.type === "cancelled" ? "cancelled" : "completed");
  },
  RUN_ERROR(event) {
    if (event.code === "events_missed") return; // it is the stream that ends here, the run goes on
    this.error ??= { type: event.code ?? "error", message: event.message };
    if (!this.isOver) this.lose("failed");
  },
};

/** Give a run that has ended, or whose process has, from what the server keeps of it. */
export function fromStored(stored) {
  const run = new WebRun(stored.input ?? stored.record?.input ?? "");
  run.id = stored.id;
  run.startedAt = stored.started_at ?? null;
  run.endedAt = stored.ended_at ?? null;
  if (stored.record) replay(run, stored.record);
  else if (stored.outcome !== "running") recall(run, stored);
  return run;
}

/** Fill a run that has no record, its process died: with the calls that had been begun. */
export function recall(run, stored) {
  for (const call of stored.calls ?? []) {
    run.take({ type: "TOOL_CALL_START", toolCallId: call.id, toolCallName: call.name });
    run.take({ type: "CUSTOM", name: "loopctl.ToolFinished", value: { call } });
  }
  for (const tool of run.tools) change(tool, { isOrphan: tool.status === "interrupted" });
  run.lose(stored.outcome);
}

/** Fill `run` with what `record` tells, in the order in which it came. */
export function replay(run, record) {
  run.rewind();
  for (const turn of record.turns) {
    turn.reply.blocks.forEach((block, index) => {
      const id = `${turn.number}.${index}`;
      if (block.type === "tool_call") run.take({ type: "TOOL_CALL_START", toolCallId: block.id, toolCallName: block.name });
      else run._text(block.type === "thinking" ? "thinking" : "text", id, block.text);
    });
  }
  run.end(record);
}

function change(item, values) {
  Object.assign(item, values);
  item.version += 1;
}

function parsed(text) {
  try {
    return JSON.parse(text || "{}");
  } catch {
    return null;
  }
}
