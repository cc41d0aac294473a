/**
 * Owns showing markdown: the tree of markdown.js as DOM nodes, kept up to date while it grows.
 *
 * Rules: a block that has not changed keeps its node, so that a selection survives and a long reply stays cheap; headings
 * begin below those of the page.
 */

import { h } from "./dom.js";
import { parse } from "./markdown.js";

export class Prose {
  element = h("div", { class: "prose" });
  #sources = [];

  constructor(text = "") {
    if (text) this.show(text);
  }

  /** Show `text` in place of what was shown. */
  show(text) {
    const found = parse(text);
    let same = 0;
    while (same < found.length && this.#sources[same] === found[same].source) same += 1;
    while (this.element.childNodes.length > same) this.element.lastChild.remove();
    this.element.append(...found.slice(same).map(block));
    this.#sources = found.map(({ source }) => source);
  }
}

const BLOCKS = {
  p: (node) => h("p", {}, node.children.map(piece)),
  h: (node) => h(`h${Math.min(6, node.level + 2)}`, {}, node.children.map(piece)),
  rule: () => h("hr"),
  quote: (node) => h("blockquote", {}, node.children.map(block)),
  code: (node) => code(node),
  list: (node) => {
    const items = node.items.map((item) => h("li", {}, tight(item)));
    return node.start === null ? h("ul", {}, items) : h("ol", { start: node.start === 1 ? null : node.start }, items);
  },
  table: (node) => table(node),
};

const block = (node) => BLOCKS[node.type](node);

/** An item of one paragraph stands without it. */
function tight(children) {
  return children.map((child, index) => (index === 0 && child.type === "p" ? child.children.map(piece) : block(child)));
}

function code(node) {
  const label = node.language ? `code in ${node.language}` : "code";
  return h(
    "div",
    { class: "code" },
    node.language && h("div", { class: "code-language", "aria-hidden": "true" }, node.language),
    h("pre", { tabindex: 0, role: "region", "aria-label": label }, h("code", {}, node.text)),
  );
}

function table(node) {
  const row = (tag, cells) => h("tr", {}, cells.map((cell, at) => h(tag, { class: `to-${node.aligns[at]}` }, cell.map(piece))));
  return h(
    "div",
    { class: "table-scroll", tabindex: 0, role: "region", "aria-label": "table" },
    h("table", {}, h("thead", {}, row("th", node.head)), h("tbody", {}, node.rows.map((cells) => row("td", cells)))),
  );
}

const PIECES = {
  text: (node) => node.text,
  br: () => h("br"),
  code: (node) => h("code", {}, node.text),
  strong: (node) => h("strong", {}, node.children.map(piece)),
  em: (node) => h("em", {}, node.children.map(piece)),
  del: (node) => h("del", {}, node.children.map(piece)),
  link: (node) => h("a", { href: node.href, rel: "noopener noreferrer", target: "_blank" }, node.children.map(piece)),
};

const piece = (node) => PIECES[node.type](node);
