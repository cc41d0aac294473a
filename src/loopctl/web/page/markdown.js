/**
 * Owns reading markdown, as models write it, into a tree of plain objects.
 *
 * Rules: pure, no DOM: what comes out is data, and HTML in the text is text. It never fails: what is not (yet) markdown is
 * a paragraph, an open code block is a code block. Linear, apart from depth, which is bounded. Links lead to http and
 * https only; a picture is a link to it, since the page loads nothing from elsewhere.
 *
 * Blocks: {type: "p" | "h" | "code" | "quote" | "list" | "table" | "rule", source, …}; `source` tells whether one changed.
 */

const DEEPEST = 6;
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`\s]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}>\s?/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(?:\s+|$)/;
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

/** Give the blocks of `text`. */
export function parse(text) {
  return blocks(text.replace(/\r\n?/g, "\n").split("\n"), 0);
}

function blocks(lines, depth) {
  const found = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    const [block, next] = READERS.reduce((read, reader) => read ?? reader(lines, at, depth), null) ?? paragraph(lines, at);
    block.source = lines.slice(at, next).join("\n");
    found.push(block);
    at = next;
  }
  return found;
}

const READERS = [fence, heading, rule, quote, list, table];

function fence(lines, at) {
  const opened = FENCE.exec(lines[at]);
  if (!opened) return null;
  const [, mark, language] = opened;
  let end = at + 1;
  while (end < lines.length && !isClosing(lines[end], mark)) end += 1;
  return [{ type: "code", language, text: lines.slice(at + 1, end).join("\n") }, Math.min(end + 1, lines.length)];
}

function isClosing(line, mark) {
  const text = line.trim();
  return text.length >= mark.length && text[0] === mark[0] && text === mark[0].repeat(text.length);
}

function heading(lines, at) {
  const found = HEADING.exec(lines[at]);
  return found && [{ type: "h", level: found[1].length, children: inline(found[2]) }, at + 1];
}

function rule(lines, at) {
  return RULE.test(lines[at]) ? [{ type: "rule" }, at + 1] : null;
}

function quote(lines, at, depth) {
  if (!QUOTE.test(lines[at]) || depth >= DEEPEST) return null;
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  return [{ type: "quote", children: blocks(lines.slice(at, end).map((line) => line.replace(QUOTE, "")), depth + 1) }, end];
}

function list(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  if (!first || depth >= DEEPEST) return null;
  const indent = first[1].length;
  const isOrdered = /\d/.test(first[2]);
  const items = [];
  let end = at;
  while (end < lines.length) {
    const mark = ITEM.exec(lines[end]);
    if (mark && mark[1].length <= indent + 1 && mark[1].length >= indent && /\d/.test(mark[2]) === isOrdered) {
      items.push([lines[end].slice(mark[0].length)]);
    } else if (belongs(lines, end, indent)) {
      items.at(-1).push(lines[end].replace(/^ {1,4}|^\t/, ""));
    } else break;
    end += 1;
  }
  const start = isOrdered ? Number.parseInt(first[2], 10) : null;
  return [{ type: "list", start, items: items.map((item) => blocks(item, depth + 1)) }, end];
}

/** Tell whether a line goes on with the item above it: indented, a lazy continuation, or a gap inside the list. */
function belongs(lines, at, indent) {
  const line = lines[at];
  if (line.trim()) {
    const own = line.length - line.trimStart().length;
    return own > indent || (lines[at - 1].trim() !== "" && !startsBlock(line));
  }
  const next = lines.slice(at + 1, at + 3).find((later) => later.trim());
  return next !== undefined && (/^\s{2,}/.test(next) || ITEM.exec(next)?.[1].length === indent);
}

const startsBlock = (line) => [FENCE, HEADING, RULE, QUOTE, ITEM].some((pattern) => pattern.test(line));

function table(lines, at) {
  if (!lines[at].includes("|") || at + 1 >= lines.length || !TABLE_RULE.test(lines[at + 1])) return null;
  const head = cells(lines[at]);
  const aligns = cells(lines[at + 1]).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : "left"));
  if (head.length !== aligns.length) return null;
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  const rows = lines.slice(at + 2, end).map((line) => head.map((_, column) => inline(cells(line)[column] ?? "")));
  return [{ type: "table", head: head.map((cell) => inline(cell)), aligns, rows }, end];
}

const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());

function paragraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !startsBlock(lines[end])) end += 1;
  return [{ type: "p", children: inline(lines.slice(at, end).join("\n").trim()) }, end];
}

/** Give the pieces of a line: {type: "text" | "code" | "strong" | "em" | "del" | "link" | "br", …}. */
export function inline(text, depth = 0) {
  return new Inline(text, depth).read();
}

const SPECIAL = /[`*_~[!\n\\<h]/g;
const PAIRS = [["**", "strong"], ["__", "strong"], ["~~", "del"], ["*", "em"], ["_", "em"]];
const ADDRESS = /https?:\/\/[^\s<>"'`]+/y;
const LINK = /!?\[((?:[^[\]\\]|\\.){0,500})\]\(\s*<?([^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)>?(?:\s+["'][^"'\n]*["'])?\s*\)/y;

class Inline {
  #text;
  #depth;
  #pieces = [];
  #plain = "";
  /** Marks of which there is no closing one further on: to look for it once is enough. */
  #unclosed = new Set();

  constructor(text, depth) {
    this.#text = text;
    this.#depth = depth;
  }

  read() {
    let at = 0;
    while (at < this.#text.length) {
      SPECIAL.lastIndex = at;
      const found = SPECIAL.exec(this.#text);
      const stop = found ? found.index : this.#text.length;
      this.#plain += this.#text.slice(at, stop);
      at = stop < this.#text.length ? this.#special(stop) : stop;
    }
    this.#flush();
    return this.#pieces;
  }

  #special(at) {
    const next = { "`": () => this.#code(at), "\\": () => this.#escape(at), "\n": () => this.#break(at), "<": () => this.#angle(at),
      "[": () => this.#link(at), "!": () => this.#link(at), h: () => this.#address(at) }[this.#text[at]];
    const end = next ? next() : this.#pair(at);
    if (end) return end;
    this.#plain += this.#text[at];
    return at + 1;
  }

  #flush() {
    if (this.#plain) this.#pieces.push({ type: "text", text: this.#plain });
    this.#plain = "";
  }

  #push(piece) {
    this.#flush();
    this.#pieces.push(piece);
  }

  #close(mark, from) {
    if (this.#unclosed.has(mark)) return -1;
    const end = this.#text.indexOf(mark, from);
    if (end < 0) this.#unclosed.add(mark);
    return end;
  }

  #code(at) {
    const mark = /`+/y;
    mark.lastIndex = at;
    const ticks = mark.exec(this.#text)[0];
    const end = this.#close(ticks, at + ticks.length);
    if (end < 0) {
      this.#plain += ticks;
      return at + ticks.length;
    }
    const inner = this.#text.slice(at + ticks.length, end).replaceAll("\n", " ");
    this.#push({ type: "code", text: /^ .*[^ ].* $/.test(inner) ? inner.slice(1, -1) : inner });
    return end + ticks.length;
  }

  #escape(at) {
    const next = this.#text[at + 1];
    if (next === undefined || !/[!-/:-@[-`{-~]/.test(next)) return 0;
    this.#plain += next;
    return at + 2;
  }

  #break(at) {
    if (this.#plain.endsWith("  ")) {
      this.#plain = this.#plain.trimEnd();
      this.#push({ type: "br" });
    } else this.#plain += "\n";
    return at + 1;
  }

  #pair(at) {
    if (this.#depth >= DEEPEST) return 0;
    const pair = PAIRS.find(([mark]) => this.#text.startsWith(mark, at));
    if (!pair) return 0;
    const [mark, type] = pair;
    const from = at + mark.length;
    if (/\s|^$/.test(this.#text[from] ?? "") || (mark[0] === "_" && isWord(this.#text[at - 1]))) return 0;
    const end = this.#closing(mark, from);
    if (end <= from) return 0;
    this.#push({ type, children: inline(this.#text.slice(from, end), this.#depth + 1) });
    return end + mark.length;
  }

  #closing(mark, from) {
    let end = this.#close(mark, from);
    // A single mark does not close at a double one ("*a **b** c*"), a mark after a space closes nothing.
    for (let tries = 0; end >= 0 && tries < 20; tries += 1) {
      const isDouble = mark.length === 1 && this.#text[end + 1] === mark;
      const isInWord = mark[0] === "_" && isWord(this.#text[end + mark.length]);
      if (!isDouble && !isInWord && !/\s/.test(this.#text[end - 1])) return end;
      end = this.#close(mark, end + (isDouble ? 2 : 1));
    }
    return -1;
  }

  #link(at) {
    LINK.lastIndex = at;
    const found = this.#depth < DEEPEST && LINK.exec(this.#text);
    if (!found) return 0;
    const href = safe(found[2]);
    const label = found[1] || found[2];
    if (href) this.#push({ type: "link", href, children: inline(label, DEEPEST) });
    else this.#plain += found[0];
    return at + found[0].length;
  }

  #angle(at) {
    if (!this.#text.startsWith("<http", at)) return 0;
    const end = this.#address(at + 1);
    return end && this.#text[end] === ">" ? end + 1 : end;
  }

  #address(at) {
    ADDRESS.lastIndex = at;
    if (isWord(this.#text[at - 1])) return 0;
    const found = ADDRESS.exec(this.#text);
    if (!found) return 0;
    const shown = trimmed(found[0]);
    const href = safe(shown);
    if (!href) return 0;
    this.#push({ type: "link", href, children: [{ type: "text", text: shown }] });
    return at + shown.length;
  }
}

const isWord = (character) => character !== undefined && /[\p{L}\p{N}]/u.test(character);

/** Take off what ends the sentence, not the address. */
function trimmed(address) {
  const text = address.replace(/[.,;:!?*_~]+$/, "");
  return text.endsWith(")") && !text.includes("(") ? trimmed(text.slice(0, -1)) : text;
}

/** Give the address if it is one that a page may lead to, else null. */
export function safe(address) {
  try {
    const url = new URL(address);
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
  } catch {
    return null;
  }
}
