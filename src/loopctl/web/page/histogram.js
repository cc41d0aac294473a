/**
 * Owns drawing the plot of cancel latency: one row of bars for each checkpoint, all on one logarithmic axis.
 *
 * Rules: the drawing says in words what it shows, and the table below it has every number.
 */

import { h, svg } from "./dom.js";
import { position, rows, tickText } from "./latency.js";
import { WHERE, milli, milliseconds } from "./words.js";

const HEIGHT = 44;
const WIDTH = 600;
/** A bar of one stop alone does not look like many. */
const FEW = 3;

/** Give the plot of `{checkpoint: [seconds, …]}`. */
export function histogram(byCheckpoint) {
  const { axis, rows: list } = rows(byCheckpoint);
  if (!list.length) {
    return h("p", { class: "empty" }, "No run has been stopped yet. Stop one, and this shows how long it took.");
  }
  return h(
    "div",
    { class: "plot" },
    h("div", { class: "plot-rows" }, list.map((row) => plotRow(row, axis))),
    h("div", { class: "plot-axis", "aria-hidden": "true" }, h("span", {}), ticks(axis), h("span", {})),
    h("p", { class: "plot-key quiet" }, mark("key-median"), "median", mark("key-high"), "95 of 100 are quicker"),
    h("details", { class: "plot-table" }, h("summary", {}, "The numbers"), table(list)),
  );
}

const mark = (kind) => h("span", { class: kind, "aria-hidden": "true" });

const stops = (count) => `${count} ${count === 1 ? "stop" : "stops"}`;

function plotRow(row, axis) {
  const words = WHERE[row.checkpoint] ?? "";
  const [median, high, most] = [row.median, row.high, row.most].map(milliseconds);
  const said = `${row.checkpoint}: ${stops(row.count)}, median ${median}, 95 of 100 within ${high}, longest ${most}`;
  return h(
    "div",
    { class: "plot-row" },
    h("div", { class: "plot-name" }, h("code", {}, row.checkpoint), h("span", { class: "quiet" }, words)),
    drawing(row, axis, said),
    h("div", { class: "plot-count" }, h("strong", {}, milli(row.median)), h("span", { class: "quiet" }, stops(row.count))),
  );
}

function drawing(row, axis, said) {
  const most = Math.max(FEW, ...row.bins);
  const wide = WIDTH / axis.bins;
  const bars = row.bins.flatMap((count, at) => {
    if (!count) return [];
    const tall = Math.max(3, (count / most) * (HEIGHT - 6));
    return [svg("rect", { class: "plot-bar", x: at * wide + 0.75, y: HEIGHT - tall, width: wide - 1.5, height: tall, rx: 1.5 })];
  });
  const lines = axis.ticks.map((tick) => line("plot-grid", position(tick, axis) * WIDTH));
  return svg(
    "svg",
    { class: "plot-drawing", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": said },
    lines,
    svg("line", { class: "plot-base", x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT }),
    bars,
    line("plot-high", position(row.high, axis) * WIDTH),
    line("plot-median", position(row.median, axis) * WIDTH),
  );
}

const line = (kind, x) => svg("line", { class: kind, x1: x, x2: x, y1: 0, y2: HEIGHT });

function ticks(axis) {
  const labels = axis.ticks.map((tick) => {
    const label = h("span", { class: "plot-tick" }, tickText(tick));
    label.style.left = `${position(tick, axis) * 100}%`;
    return label;
  });
  return h("div", { class: "plot-ticks" }, labels);
}

function table(list) {
  const heads = ["Checkpoint", "Stops", "Median", "95 of 100 within", "Longest"];
  const cells = (row) => [String(row.count), milli(row.median), milli(row.high), milli(row.most)].map((cell) => h("td", {}, cell));
  const line = (row) => h("tr", {}, h("th", { scope: "row" }, h("code", {}, row.checkpoint)), cells(row));
  return h(
    "div",
    { class: "table-scroll", tabindex: 0, role: "region", "aria-label": "Cancel latency, the numbers" },
    h("table", { class: "numbers" },
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, list.map(line))),
  );
}
