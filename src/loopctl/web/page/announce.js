/**
 * Owns what a screen reader is told while things change.
 *
 * Rules: text that streams is told in whole sentences, at most every two seconds, so that it can be followed; what a
 * person must act on is told at once. The visible page is not live.
 */

const PAUSE = 2000;
const SENTENCES = /^[\s\S]*[.!?:\n](?=\s|$)/;

export class Announcer {
  #polite;
  #urgent;
  #pending = "";
  #last = 0;
  #timer = null;

  constructor(polite, urgent) {
    this.#polite = polite;
    this.#urgent = urgent;
  }

  /** More of a text that streams. */
  text(delta) {
    this.#pending += delta;
    this.#timer ??= setTimeout(() => this.#flush(), Math.max(0, this.#last + PAUSE - Date.now()));
  }

  /** Something that has changed: after what was said. */
  say(sentence) {
    this.#flush(true);
    this.#put(this.#polite, sentence);
  }

  /** Something to act on. */
  alert(sentence) {
    this.#pending = "";
    this.#put(this.#urgent, sentence);
  }

  /** The text goes no further. */
  end() {
    this.#flush(true);
  }

  #flush(isEnd = false) {
    clearTimeout(this.#timer);
    this.#timer = null;
    const whole = isEnd ? this.#pending : (SENTENCES.exec(this.#pending)?.[0] ?? "");
    this.#pending = this.#pending.slice(whole.length);
    if (!whole.trim()) return;
    this.#last = Date.now();
    this.#put(this.#polite, whole.trim());
  }

  #put(region, text) {
    const line = document.createElement("p");
    line.textContent = text;
    region.append(line);
    while (region.childNodes.length > 8) region.firstChild.remove();
  }
}
