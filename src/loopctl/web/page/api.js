/**
 * Owns talking to the server: addresses, the token, and errors that say what to do.
 *
 * Rules: only this file fetches, and only from where the page came from, which may be a folder of a product's own. The
 * token lives as long as the tab.
 */

/** The server answered, and said no. `code` and `message` are its own words. */
export class Refused extends Error {
  constructor(status, body) {
    super(body?.error?.message ?? `the server answered ${status}`);
    this.status = status;
    this.code = body?.error?.code ?? "";
    /** The run that is in the way, if that is why. */
    this.runId = body?.run_id ?? null;
  }
}

/** The server did not answer. */
export class Unreachable extends Error {
  constructor() {
    super("The server does not answer. Is it still running?");
  }
}

const KEY = "loopctl.token";

export class Api {
  #ask;
  #asking = null;
  #stored;

  /** `ask` shows a prompt for the token and gives it, or null; `stored` is a Storage. */
  constructor(ask, stored) {
    this.#ask = ask;
    this.#stored = stored;
  }

  /** Give the JSON of an answer. */
  async json(path, options = {}) {
    const response = await this.open(path, options);
    try {
      return await response.json();
    } catch (error) {
      throw error.name === "AbortError" ? error : new Unreachable();
    }
  }

  /** Give an answer whose body is still to be read. */
  async open(path, { method = "GET", body, headers = {}, signal } = {}) {
    for (;;) {
      const token = this.#stored.getItem(KEY);
      const response = await this.#fetch(path, { method, body, headers, signal }, token);
      if (response.ok) return response;
      if (response.status !== 401 || !(await this.#renew(token))) throw new Refused(response.status, await said(response));
    }
  }

  async #fetch(path, { method, body, headers, signal }, token) {
    try {
      return await fetch(new URL(path.slice(1), document.baseURI), {
        method,
        signal,
        cache: "no-store",
        credentials: "same-origin",
        headers: {
          ...headers,
          ...(body === undefined ? {} : { "Content-Type": "application/json" }),
          ...(token ? { Authorization: `Bearer ${token}` } : {}),
        },
        body: body === undefined ? undefined : JSON.stringify(body),
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Unreachable();
    }
  }

  /** Ask for the token, once for all who need it; true if there is another one than `refused`. */
  async #renew(refused) {
    if (this.#stored.getItem(KEY) !== refused) return true;
    this.#asking ??= this.#ask(refused !== null).finally(() => (this.#asking = null));
    const token = await this.#asking;
    if (token) this.#stored.setItem(KEY, token);
    return Boolean(token);
  }
}

async function said(response) {
  try {
    return await response.json();
  } catch {
    return null;
  }
}
