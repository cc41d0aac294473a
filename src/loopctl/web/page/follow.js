/**
 * Owns following one run: its stream, the way back to a stream that broke, and its cancel.
 *
 * Rules: a stop is a request of its own, and the stream goes on to its end, which tells what became of the run. A stream
 * that ends without the run's end has broken: it is rejoined after the last event seen, for as long as the page is open;
 * what the server no longer has of the stream, it has in its record. A stop that cannot be delivered is tried again.
 */

import { Refused, Unreachable } from "./api.js";
import { recall, replay } from "./live.js";
import { SseReader } from "./sse.js";
import { REASONS } from "./words.js";

const PAUSES = [300, 700, 1500, 3000, 5000];
const POLL = 1000;
const GLANCE = 10;
const MOST_GLANCES = 100;

export class Follower {
  /** "opening", "live", "lost": how the stream is. */
  state = "opening";
  #api;
  #run;
  #tell;
  #left = new AbortController();
  #attempt = null;
  #pauses = new Set();

  /** `tell` is called when something has changed. */
  constructor(api, run, tell) {
    this.#api = api;
    this.#run = run;
    this.#tell = tell;
  }

  /** Send `text`, and follow the run to its end. Throws Refused or Unreachable if it did not begin. */
  async begin(sessionId, text) {
    const messages = [{ id: `${this.#run.clientId}-input`, role: "user", content: text }];
    const body = { threadId: sessionId, runId: this.#run.clientId, messages, tools: [], context: [], state: {}, forwardedProps: {} };
    let response;
    try {
      response = await this.#open("/runs", { method: "POST", body });
    } catch (error) {
      this.leave(); // there is nothing that a stop could end
      throw error;
    }
    this.#run.id = response.headers.get("X-Run-Id") ?? this.#run.id;
    await this.#read(response);
    await this.#regain();
  }

  /** Follow a run that goes on elsewhere, from what was seen of it. Throws Refused if we may not. */
  async rejoin() {
    await this.#regain(true);
  }

  /** Let go of the run, and do not ask what becomes of it. */
  leave() {
    this.#left.abort();
    this.retry();
  }

  /** Look again for a stream that was lost, now. */
  retry() {
    for (const end of this.#pauses) end();
  }

  /** The network has gone: what is being read will not go on. */
  lose() {
    this.#attempt?.abort();
  }

  /** Ask for the run's end. Gives the receipt; null if it had ended, or nobody is to be asked any more. */
  async stop(urgency) {
    await this.#begun();
    for (let attempt = 0; !this.#run.isOver && !this.#left.signal.aborted; attempt += 1) {
      try {
        const id = encodeURIComponent(this.#run.id ?? this.#run.clientId);
        const body = { urgency, reason: REASONS[urgency] };
        return await this.#api.json(`/runs/${id}/cancel`, { method: "POST", body, signal: this.#left.signal });
      } catch (error) {
        if (error.name === "AbortError") return null;
        const isEarly = error.status === 404 && this.state === "opening";
        if (error instanceof Refused && !isEarly) return null;
        await this.#pause(PAUSES[Math.min(attempt, PAUSES.length - 1)]);
      }
    }
    return null;
  }

  /** Wait a moment for the server's name of a run that has only just been asked for. */
  async #begun() {
    const isWaiting = () => !this.#run.id && !this.#run.isOver && !this.#left.signal.aborted;
    for (let glances = 0; glances < MOST_GLANCES && isWaiting(); glances += 1) await this.#pause(GLANCE);
  }

  async #open(path, options) {
    this.#attempt = new AbortController();
    const signal = AbortSignal.any([this.#attempt.signal, this.#left.signal]);
    try {
      return await this.#api.open(path, { ...options, headers: { ...options.headers, Accept: "text/event-stream" }, signal });
    } catch (error) {
      if (error.name === "AbortError" && !this.#left.signal.aborted) throw new Unreachable();
      throw error;
    }
  }

  async #read(response) {
    this.#become("live");
    const events = new SseReader();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        for (const { id, data } of events.push(value)) this.#run.take(JSON.parse(data), Number(id) || 0);
        this.#tell();
      }
    } catch (error) {
      // A broken connection is an error here, of a kind that differs by browser; what follows is the same.
      if (error instanceof SyntaxError) console.warn("an event that is not JSON", error);
    }
  }

  async #regain(isAtOnce = false) {
    let failures = isAtOnce ? -1 : 0;
    while (!this.#run.isOver && !this.#left.signal.aborted) {
      if (failures >= 0) {
        this.#become("lost");
        await this.#pause(PAUSES[Math.min(failures, PAUSES.length - 1)]);
      }
      if (!this.#left.signal.aborted) failures = (await this.#again()) ? 0 : failures + 1;
    }
  }

  /** Try once; true if the stream was there again. */
  async #again() {
    const id = encodeURIComponent(this.#run.id ?? this.#run.clientId);
    try {
      const headers = { "Last-Event-ID": String(this.#run.lastEventId) };
      await this.#read(await this.#open(`/runs/${id}/events`, { headers }));
      return true;
    } catch (error) {
      if (error.status === 401 || error.status === 403) throw error;
      if (error.status === 404 || error.status === 410) await this.#settle(id);
      return false;
    }
  }

  /** The stream is not to be had any more: take what the server keeps of the run. */
  async #settle(id) {
    try {
      const stored = await this.#api.json(`/runs/${id}`, { signal: this.#left.signal });
      if (stored.record) replay(this.#run, stored.record);
      else if (stored.outcome !== "running") recall(this.#run, stored);
      else {
        this.#run.isCut = true;
        this.#become("live");
        await this.#pause(POLL);
      }
    } catch (error) {
      if (error instanceof Refused && error.status === 404) this.#run.lose();
    }
    this.#tell();
  }

  #become(state) {
    this.state = state;
    this.#tell();
  }

  async #pause(milliseconds) {
    await new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        this.#pauses.delete(end);
        resolve();
      };
      const timer = setTimeout(end, milliseconds);
      this.#pauses.add(end);
    });
  }
}
