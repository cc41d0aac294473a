/**
 * Owns reading server-sent events out of a stream of text.
 *
 * Rules: pure; a chunk may end anywhere, also between "\r" and "\n"; an event is given once, when its empty line has come.
 */

export class SseReader {
  #rest = "";
  #data = [];
  #id = "";

  /** Take more text, give the events that are whole now: `{id, data}`. */
  push(chunk) {
    this.#rest += chunk;
    const events = [];
    for (;;) {
      const end = this.#rest.search(/[\r\n]/);
      // A "\r" at the very end may be half of "\r\n".
      if (end < 0 || (this.#rest[end] === "\r" && end === this.#rest.length - 1)) return events;
      const line = this.#rest.slice(0, end);
      this.#rest = this.#rest.slice(end + (this.#rest.startsWith("\r\n", end) ? 2 : 1));
      this.#line(line, events);
    }
  }

  #line(line, events) {
    if (line === "") {
      if (this.#data.length) events.push({ id: this.#id, data: this.#data.join("\n") });
      this.#data = [];
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#data.push(value);
    else if (field === "id") this.#id = value;
  }
}
