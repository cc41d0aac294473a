import assert from "node:assert/strict";
import { test } from "node:test";

import { inline, parse, safe } from "../../../../src/loopctl/web/page/markdown.js";

const plain = (pieces) => pieces.map((piece) => piece.text ?? plain(piece.children ?? [])).join("");
const kinds = (text) => parse(text).map((block) => block.type);

test("blocks are told apart", () => {
  const text = "# Title\n\npara\ngraph\n\n- a\n- b\n\n1. c\n\n> q\n\n```py\nx = 1\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n***";
  assert.deepEqual(kinds(text), ["h", "p", "list", "list", "quote", "code", "table", "rule"]);
});

test("a list holds lists, and goes on over lines", () => {
  const [list] = parse("- one\n  more\n  - inner\n- two\n\n  second part");
  assert.equal(list.items.length, 2);
  assert.deepEqual(list.items[0].map((block) => block.type), ["p", "list"]);
  assert.deepEqual(list.items[1].map((block) => block.type), ["p", "p"]);
  assert.equal(parse("3. c\n4. d")[0].start, 3);
});

test("emphasis, code and links are found inside a line", () => {
  const pieces = inline("a **b *c*** `d*e*` ~~f~~ [g](https://x.y/z_(1)) <https://x.y> https://x.y/a. snake_case_name 2 * 3 * 4");
  assert.deepEqual(pieces.filter((piece) => piece.type !== "text").map((piece) => piece.type), ["strong", "code", "del", "link", "link", "link"]);
  assert.match(plain(pieces), /snake_case_name 2 \* 3 \* 4$/);
  assert.equal(pieces.at(-2).href, "https://x.y/a");
});

test("what has not ended yet is shown as far as it came", () => {
  assert.deepEqual(kinds("```py\nx = ("), ["code"]);
  assert.equal(plain(inline("a **b")), "a **b");
  assert.equal(plain(inline("a [b](http")), "a [b](http");
  assert.deepEqual(kinds("| a | b |"), ["p"]);
  const whole = "# T\n\n- a **b**\n\n```\ncode\n```\n\n| a |\n|---|\n| [x](http://y) |\n";
  for (let end = 0; end <= whole.length; end += 1) parse(whole.slice(0, end));
});

test("markup and addresses that run something are text", () => {
  for (const address of ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "vbscript:x", " javascript:x", "java\nscript:x", "//x.y", "x", ""]) {
    assert.equal(safe(address), null, address);
    assert.deepEqual(inline(`[a](${address})`).filter((piece) => piece.type === "link"), [], address);
  }
  const [block] = parse("<script>alert(1)</script> <img src=x onerror=alert(1)>");
  assert.deepEqual(block.children, [{ type: "text", text: "<script>alert(1)</script> <img src=x onerror=alert(1)>" }]);
  assert.equal(inline("![a](http://x.y/p.png)")[0].type, "link");
});

test("a block that has not changed has the same source while the text grows", () => {
  const before = parse("first\n\nsecond");
  const after = parse("first\n\nsecond and\n\nthird");
  assert.equal(before[0].source, after[0].source);
  assert.notEqual(before[1].source, after[1].source);
});

test("nothing takes long, however it is nested or left open", () => {
  const hostile = ["*", "**a *b ", "_a ", "`", "a`` ", "[", "[a](", "> ", "- ", "| ", "# ", "~", "http://", "<http", "\\", "- a\n\n", "![", "(", "  \n"];
  for (const piece of hostile) {
    const began = performance.now();
    parse(piece.repeat(20_000 / piece.length));
    assert.ok(performance.now() - began < 2_000, `${JSON.stringify(piece)} took ${performance.now() - began} ms`);
  }
});
