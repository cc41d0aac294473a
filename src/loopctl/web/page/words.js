/**
 * Owns the words in which the page tells how a run ended: those of the terminal, see loopctl/cli/_report.py.
 *
 * Rules: pure; only what the record says. A call that was interrupted or abandoned is never said to have had no effect.
 * A test compares the three tables with the terminal's.
 */

export const WHERE = {
  TURN_ENTRY: "before the model was asked",
  MODEL_REQUEST: "while waiting for the reply",
  STREAM_EVENT: "in the middle of the reply",
  STREAM_WAIT: "while waiting to ask the model again",
  RESCUE: "before asking once more without streaming",
  BETWEEN_CALLS: "between two tool calls",
  WAVE: "before the next tool calls",
  TOOL_CALL: "in a tool",
  RECOVERY_WAIT: "while waiting to try a tool again",
  PIPELINE: "in a layer around a call",
  APPROVAL: "while waiting for approval",
  DELIVERY: "while the reply was being shown",
  SETUP: "while the model was starting",
};

export const ORIGINS = {
  user: "on request",
  deadline: "at its deadline",
  stall: "because nothing happened any more",
  budget: "at its token budget",
  disconnect: "because nobody reads it any more",
  shutdown: "by a shutdown",
  observer: "by a rule",
  caller: "by the program",
  parent: "with the run around it",
};

export const STATUS = {
  completed: "completed",
  failed: "failed",
  denied: "denied",
  interrupted: "interrupted (effect unknown)",
  abandoned: "abandoned (may still have an effect)",
  not_started: "not started",
};

/** What we tell the server of why, by urgency. */
export const REASONS = { stop: "Stop on the page", abandon: "Stop now on the page" };

/** The states of a tool card that are not yet a status. */
export const UNDERWAY = {
  coming: "being written",
  asking: "needs your approval",
  running: "running",
  closing: "closing",
};

/** A status in one or two words, and the sentence behind it; the last one is what the page says when nobody can tell. */
export const CALL = {
  completed: ["completed", ""],
  failed: ["failed", ""],
  denied: ["denied", "It did not run: the answer was no."],
  interrupted: ["interrupted", "Effect unknown: it was stopped on its way."],
  abandoned: ["abandoned", "It may still be running, and may still have an effect."],
  not_started: ["not started", "It never ran."],
  unknown: ["unknown", "Nobody can tell whether it ended, or had its effect."],
};

export const OUTCOME = {
  running: "running",
  completed: "completed",
  cancelled: "stopped",
  max_turns: "out of turns",
  failed: "failed",
  interrupted: "interrupted",
  unknown: "unknown",
};

/** Say how a cancelled run was stopped, in one sentence: by what, where. */
export function stopSentence(record) {
  const { stop } = record;
  return `Stopped ${ORIGINS[stop.reason.origin] ?? `by ${stop.reason.origin}`} ${place(record)}`;
}

/** Say where: the checkpoint in words, with the tool's name where it was a tool. */
export function place(record) {
  const { checkpoint } = record.stop;
  if (checkpoint === "TOOL_CALL") return placeOfTool(record.tool_calls);
  if (checkpoint === "STREAM_EVENT" && !hasBegun(record)) return WHERE.MODEL_REQUEST;
  return WHERE[checkpoint] ?? `at ${checkpoint}`;
}

function placeOfTool(calls) {
  const inside = calls.find((call) => call.status === "interrupted" || call.status === "abandoned");
  if (inside) return `in the tool ${inside.name}`;
  const before = calls.find((call) => call.status === "not_started");
  return before ? `before the tool ${before.name} began` : "as a tool ended";
}

const hasBegun = (record) => (record.turns.at(-1)?.reply.blocks.length ?? 0) > 0;

/** Say what had happened to the calls, by status: [["completed", "fetch, save"], …]. */
export function callsByStatus(calls) {
  return Object.keys(STATUS).flatMap((status) => {
    const named = calls.filter((call) => call.status === status).map((call) => call.name);
    return named.length ? [[status, names(named)]] : [];
  });
}

function names(all, most = 4) {
  return all.slice(0, most).join(", ") + (all.length > most ? ` and ${all.length - most} more` : "");
}

/** Say what still runs, of one straggler. */
export function stragglerText(straggler) {
  const at = straggler.where ? ` at ${straggler.where}` : "";
  return `${straggler.name}${at} (${straggler.kind}, ${straggler.age.toFixed(1)} s)`;
}

/** Say how much text had been said. */
export function amount(record) {
  const text = record.turns.map(replyText).filter(Boolean).join(" ");
  const words = text.split(/\s+/).filter(Boolean).length;
  return words ? `${words} ${words === 1 ? "word" : "words"}` : "nothing";
}

const replyText = (turn) => turn.reply.blocks.filter((block) => block.type === "text").map((block) => block.text).join("");

/** Say why a run failed or ended early, and what to do next. */
export function failure(run) {
  const record = run.record;
  if (run.outcome === "max_turns") {
    const turns = record?.turns.length ?? 0;
    return {
      title: "Out of turns",
      text: `After ${turns} ${turns === 1 ? "turn" : "turns"} the model still asked for tools.`,
      next: "Ask for less at once, or start the server with a larger --max-turns.",
    };
  }
  if (run.outcome === "interrupted") {
    return {
      title: "Interrupted",
      text: "The process that ran this ended before the run did.",
      next: run.tools.length
        ? "Whether its calls had their effect is unknown. Look before you ask again."
        : "Nothing of it is part of the conversation. Ask again if you still want it.",
    };
  }
  if (run.outcome === "left") {
    return {
      title: "Left",
      text: "The server did not answer to the stop, and you stopped waiting for it.",
      next: "The run may still go on there, and may still have an effect. Its page says so once the server answers.",
    };
  }
  if (run.outcome === "unknown") {
    return {
      title: "The server no longer knows this run",
      text: "It was probably restarted. What had arrived is kept above.",
      next: run.tools.length ? "Whether calls that had begun had their effect is unknown." : "Ask again if you still want an answer.",
    };
  }
  return { title: "Failed", text: run.error?.message ?? "The run failed.", next: "Your next message starts a fresh run." };
}

const WAITS = {
  retry: "The request failed, trying again",
  rate_limit: "Rate limited, trying again",
  gate: "Held back by the rate gate",
};

export function waiting({ why, seconds }) {
  return `${WAITS[why] ?? why}${seconds == null ? "" : ` in ${Math.round(seconds)} s`}`;
}

export function milliseconds(seconds) {
  if (seconds < 0.001) return "less than 1 ms";
  return seconds < 10 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;
}

/** The same where there is little room. */
export const milli = (seconds) => (seconds < 0.001 ? "< 1 ms" : milliseconds(seconds));

export function duration(seconds) {
  if (seconds < 1) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

/** A point in time as people say it: today's clock, else the date too. */
export function moment(epoch, now = Date.now() / 1000) {
  const date = new Date(epoch * 1000);
  const clock = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  if (date.toDateString() === new Date(now * 1000).toDateString()) return clock;
  return `${date.toLocaleDateString([], { day: "numeric", month: "short" })}, ${clock}`;
}

/** A call as one would write it, shortened. */
export function callText(args) {
  if (!args) return "";
  const pairs = Object.entries(args).map(([name, value]) => `${name}=${shorten(JSON.stringify(value) ?? "", 40)}`);
  return shorten(pairs.join(", "), 100);
}

/** What a server says, as a sentence of a page. */
export function sentence(text) {
  const whole = /[.!?]$/.test(text) ? text : `${text}.`;
  return whole[0].toUpperCase() + whole.slice(1);
}

export function shorten(text, most) {
  const line = text.replace(/\s+/g, " ");
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}
