/**
 * Owns one conversation on the page: its runs, the message box, and the Stop button.
 *
 * Rules: one run at a time, and Stop is for that run alone. Stop asks for the end and lets the stream tell it; what has not
 * ended two seconds later can be given up by Stop now, and what does not answer at all can be left. The next message just
 * works. Nothing here moves the focus to a place where a key would say yes.
 */

import { Refused } from "./api.js";
import { Composer } from "./composer.js";
import { h, icon, put } from "./dom.js";
import { endingText } from "./ending.js";
import { Follower } from "./follow.js";
import { WebRun, fromStored } from "./live.js";
import { RunView } from "./run_view.js";
import { sentence, shorten, waiting } from "./words.js";

const STUBBORN = 2000;
const HOPELESS = 3000;
const WHERE_TO_ANSWER = "Allow and Deny are in the conversation.";
const BACK = "Your message is back in the box.";
const EXAMPLES = ["Tell me a very long story about a fox.", "Explain how tides work, step by step."];

export class Conversation {
  id;
  title = "";
  #api;
  #announcer;
  #changed;
  #runs = new Map();
  #current = null;
  #follower = null;
  /** How far a stop has come: null, "asked", "stubborn", "given-up", "hopeless". */
  #stop = null;
  #pressed = null;
  #timer = null;
  #ticker = null;
  #frame = null;
  #told = new WeakMap();
  #isListed = false;
  #isFollowing = true;
  #top = 0;
  #notice = h("div", { class: "notice", role: "alert", hidden: true });
  #log = h("div", { class: "log" });
  #scroll = h("div", { class: "scroll", tabindex: -1, onscroll: () => this.#scrolled() }, this.#log);
  #latest = h("button", { type: "button", class: "latest", hidden: true, onclick: () => this.toEnd() }, icon("down"), "Latest");
  #composer;
  element;

  /** `changed` is called when a run has begun or ended, or the conversation has got its name. */
  constructor(id, { api, announcer, changed }) {
    this.id = id;
    this.#api = api;
    this.#announcer = announcer;
    this.#changed = changed;
    this.#composer = new Composer({
      send: (text) => this.send(text),
      stop: () => this.stop(),
      retry: () => this.#follower?.retry(),
    });
    this.element = h(
      "section",
      { class: "conversation", "aria-label": "Conversation" },
      h("h2", { class: "unseen" }, "Conversation"),
      this.#scroll,
      h("div", { class: "dock" }, this.#latest, this.#notice, this.#composer.element),
    );
    // The box and the notices above it take room from the messages, and give it back.
    new ResizeObserver(() => this.#settle()).observe(this.#scroll);
    this.#welcome();
  }

  get isRunning() {
    return this.#current !== null && !this.#current.isOver;
  }

  focus() {
    this.#composer.focus();
  }

  /** Show what the server has of it, and go on with what runs. */
  async load() {
    if (this.isRunning) return;
    let stored;
    try {
      stored = await this.#api.json(`/sessions/${encodeURIComponent(this.id)}`);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      const isUnknown = error.status === 404;
      const text = isUnknown ? "The server knows no conversation of this name. A message begins it anew." : sentence(error.message);
      if (!isUnknown || !this.#runs.size) this.#warn(text, isUnknown ? [] : [["Try again", () => this.load()]]);
      return;
    }
    if (this.isRunning) return;
    this.#warn("");
    this.title = stored.title ?? "";
    this.#showAll(stored.run_list.toSorted((a, b) => a.started_at - b.started_at));
  }

  #showAll(runs) {
    const news = runs.filter((stored) => !this.#runs.get(stored.id)?.run.isOver);
    for (const stored of news) {
      const run = fromStored(stored);
      this.#show(run);
      if (stored.outcome !== "running") continue;
      this.#follow(run, (follower) => follower.rejoin()).catch((error) => this.#cut(error));
    }
    if (news.length) this.toEnd();
  }

  /** Send `text`: true if it was taken, and a run has begun. */
  send(text) {
    if (this.isRunning) {
      this.#announcer.alert("Still answering. Stop it first, or wait for its end.");
      return false;
    }
    this.#warn("");
    const run = new WebRun(text, newId());
    this.title ||= shorten(text, 60);
    const view = this.#show(run);
    this.toEnd();
    const going = this.#follow(run, (follower) => follower.begin(this.id, text));
    going.catch((error) => this.#notBegun(error, run, view, text));
    return true;
  }

  /** Stop what runs; again, when it does not end: give it up; again: leave it. */
  stop() {
    if (!this.isRunning) return;
    if (this.#stop === "hopeless") {
      this.#follower.leave();
      this.#current.lose("left");
      this.#finished(this.#current);
      return;
    }
    if (this.#stop !== null && this.#stop !== "stubborn") return;
    const isSecond = this.#stop === "stubborn";
    this.#stop = isSecond ? "given-up" : "asked";
    if (!isSecond) this.#pressed = performance.now();
    this.#announcer.alert(isSecond ? "Giving it up." : "Stopping.");
    this.#follower.stop(isSecond ? "abandon" : "stop").catch((error) => this.#warn(error.message));
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#stubborn(isSecond ? "hopeless" : "stubborn"), isSecond ? HOPELESS : STUBBORN);
    this.#refresh();
  }

  #stubborn(state) {
    if (!this.isRunning) return;
    this.#stop = state;
    const running = this.#busyTools();
    const who = running.length ? running.join(", ") : "It";
    if (state === "stubborn") this.#announcer.alert(`${who} does not end. Stop now gives it up.`);
    this.#refresh();
  }

  /** The network is gone, or back. */
  network(isThere) {
    if (isThere) this.#follower?.retry();
    else this.#follower?.lose();
  }

  /** Nobody looks at this conversation any more, and nothing of it runs. */
  close() {
    this.#follower?.leave();
    clearInterval(this.#ticker);
    clearTimeout(this.#timer);
  }

  async #follow(run, go) {
    this.#current = run;
    this.#stop = null;
    this.#pressed = null;
    this.#follower = new Follower(this.#api, run, () => this.#soon());
    this.#ticker = setInterval(() => this.#tick(), 250);
    this.#changed(this);
    this.#refresh();
    try {
      await go(this.#follower);
    } finally {
      clearInterval(this.#ticker);
      if (this.#current === run) this.#finished(run);
    }
  }

  #finished(run) {
    if (this.#current !== run) return;
    this.#current = null;
    this.#stop = null;
    clearTimeout(this.#timer);
    clearInterval(this.#ticker);
    this.#draw(run);
    this.#announcer.end();
    if (run.isOver) this.#announcer.alert(endingText(run));
    if (run.id) this.#runs.set(run.id, this.#viewed(run));
    this.#refresh();
    this.#changed(this);
  }

  #cut(error) {
    this.#warn(sentence(error.message), [["Try again", () => this.load()]]);
  }

  #notBegun(error, run, view, text) {
    if (run.id) {
      this.#cut(error);
      return;
    }
    view.element.remove();
    for (const [key, entry] of this.#runs) if (entry.run === run) this.#runs.delete(key);
    if (!this.#runs.size) this.#welcome();
    if (error.name === "AbortError") return;
    this.#composer.giveBack(text);
    const other = error instanceof Refused && error.status === 409 ? error.runId : null;
    if (other) {
      const text = "This conversation is busy: it is answering somewhere else, in another tab perhaps.";
      this.#warn(`${text} ${BACK}`, [["Show it", () => this.load()]]);
    } else this.#warn(`${sentence(error.message)} ${BACK}`);
  }

  #show(run) {
    if (!this.#runs.size) put(this.#log);
    const key = run.id ?? run.clientId;
    const known = this.#runs.get(key);
    const view = new RunView(run, (callId, answer) => this.#answer(run, callId, answer));
    if (known) known.view.element.replaceWith(view.element);
    else this.#log.append(view.element);
    this.#runs.set(key, { run, view });
    return view;
  }

  #viewed(run) {
    for (const [key, entry] of this.#runs) {
      if (entry.run !== run) continue;
      this.#runs.delete(key);
      return entry;
    }
    return null;
  }

  async #answer(run, callId, answer) {
    const path = `/runs/${encodeURIComponent(run.id)}/approvals/${encodeURIComponent(callId)}`;
    try {
      await this.#api.json(path, { method: "POST", body: { answer } });
      // The buttons are gone, and with them the focus of whoever used them.
      if (document.activeElement === document.body || this.element.contains(document.activeElement)) this.focus();
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 409) throw error;
      throw new Error("Too late: nobody asks any more.", { cause: error });
    }
  }

  #soon() {
    if (this.#current?.isOver && this.#pressed !== null) {
      this.#current.waited ??= (performance.now() - this.#pressed) / 1000;
    }
    if (!this.#isListed && this.#current?.id) {
      this.#isListed = true; // the server has it now, and its list of conversations names it
      this.#changed(this);
    }
    this.#frame ??= requestAnimationFrame(() => {
      this.#frame = null;
      if (this.#current) this.#draw(this.#current);
      this.#refresh();
    });
    // A hidden tab gets no frames; what it says must be true when somebody looks.
    if (document.hidden && this.#current?.isOver) this.#draw(this.#current);
  }

  #draw(run) {
    for (const entry of this.#runs.values()) if (entry.run === run) entry.view.update();
    this.#tell(run);
    this.#settle();
  }

  #tell(run) {
    for (const item of run.items) {
      const told = this.#told.get(item) ?? "";
      if (item.kind === "text" && item.text.length > told.length) {
        this.#announcer.text(item.text.slice(told.length));
        this.#told.set(item, item.text);
      } else if (item.kind === "tool" && item.status !== told) {
        this.#told.set(item, item.status);
        if (item.status === "running") this.#announcer.say(`Running ${item.name}.`);
        if (item.status === "asking") this.#announcer.alert(`Approval needed: may ${item.name} run? ${WHERE_TO_ANSWER}`);
      }
    }
  }

  #tick() {
    for (const entry of this.#runs.values()) if (entry.run === this.#current) entry.view.tick();
  }

  #refresh() {
    const run = this.#current;
    if (!run) {
      this.#composer.idle();
      return;
    }
    this.#composer.busy({ ...this.#stage(), note: this.#status(run), isLost: this.#follower.state === "lost" });
  }

  #stage() {
    switch (this.#stop) {
      case "asked":
        return { label: "Stopping…", isWaiting: true };
      case "stubborn":
        return { label: "Stop now", isUrgent: true };
      case "given-up":
        return { label: "Giving up…", isWaiting: true };
      case "hopeless":
        return { label: "Leave it", isUrgent: true };
      default:
        return { label: "Stop" };
    }
  }

  #busyTools() {
    return this.#current.tools.filter((tool) => tool.status === "running").map((tool) => tool.name);
  }

  #status(run) {
    const running = this.#busyTools();
    const who = running.join(", ");
    if (this.#follower.state === "lost") return "Connection lost. Trying again…";
    if (this.#stop === "hopeless") return "The server does not end it. Leaving it only stops the waiting here.";
    if (this.#stop === "stubborn") return `${who || "It"} does not end. Stop now gives it up; it may still have an effect.`;
    if (this.#stop) return who ? `Stopping ${who}…` : "Stopping…";
    if (run.asking.length) return `Waiting for your answer: ${run.asking.map((tool) => tool.name).join(", ")}`;
    if (who) return `Running ${who}…`;
    if (run.wait) return `${waiting(run.wait)}…`;
    return run.items.some((item) => item.isOpen && item.kind === "text") ? "Answering…" : "Waiting for the model…";
  }

  #warn(text, actions = []) {
    this.#notice.hidden = !text;
    const act = (action) => () => {
      this.#warn("");
      action();
    };
    put(
      this.#notice,
      text && h("p", {}, text),
      actions.map(([label, action]) => h("button", { type: "button", class: "button", onclick: act(action) }, label)),
      text && h("button", { type: "button", class: "button is-plain", onclick: () => this.#warn("") }, "Dismiss"),
    );
  }

  #welcome() {
    put(
      this.#log,
      h(
        "div",
        { class: "welcome" },
        h("p", { class: "welcome-title" }, "Ask something. Stop it whenever you like."),
        h("p", { class: "quiet" }, "Stop, or Esc, ends a reply or a tool within a moment, and tells what had happened until then."),
        h("ul", { class: "examples" }, EXAMPLES.map((text) =>
          h("li", {}, h("button", { type: "button", class: "example", onclick: () => this.#example(text) }, text)))),
      ),
    );
  }

  #example(text) {
    if (this.send(text)) this.focus();
  }

  #isAtEnd() {
    const scroll = this.#scroll;
    return scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
  }

  /** Show the newest. */
  toEnd() {
    this.#isFollowing = true;
    this.#settle();
  }

  /** Something has grown or shrunk: whoever read the newest goes on reading the newest. */
  #settle() {
    if (this.#isFollowing) this.#scroll.scrollTop = this.#scroll.scrollHeight;
    this.#latest.hidden = this.#isAtEnd();
  }

  /** Who scrolls back wants to read there; who comes to the end again follows it again. */
  #scrolled() {
    const top = this.#scroll.scrollTop;
    if (this.#isAtEnd()) this.#isFollowing = true;
    else if (top < this.#top) this.#isFollowing = false;
    this.#top = top;
    this.#latest.hidden = this.#isAtEnd();
  }
}

/** An id that nobody else makes; `randomUUID` is not there on a page from plain http. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
