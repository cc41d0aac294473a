/**
 * Owns the arithmetic of the plot of cancel latency: bins on a logarithmic axis, quantiles.
 *
 * Rules: pure. Seconds in; an axis runs over whole decades; what is quicker than its first tick counts into the first bin.
 */

const PER_DECADE = 5;
const LOWEST = -4;

/** Give the rows of the plot, the checkpoint with most stops first: {checkpoint, count, median, high, most, bins}. */
export function rows(byCheckpoint) {
  const all = Object.values(byCheckpoint).flat();
  const axis = axisOf(all);
  const list = Object.entries(byCheckpoint)
    .filter(([, latencies]) => latencies.length)
    .map(([checkpoint, latencies]) => row(checkpoint, [...latencies].sort((a, b) => a - b), axis))
    .sort((a, b) => b.count - a.count || a.checkpoint.localeCompare(b.checkpoint));
  return { axis, rows: list };
}

function row(checkpoint, sorted, axis) {
  const bins = new Array(axis.bins).fill(0);
  for (const value of sorted) bins[bin(value, axis)] += 1;
  return { checkpoint, count: sorted.length, median: quantile(sorted, 0.5), high: quantile(sorted, 0.95), most: sorted.at(-1), bins };
}

/** The decades that hold every value: from 0.1 ms or more, at least to 10 ms. */
export function axisOf(values) {
  const logs = values.map((value) => Math.log10(Math.max(value, 10 ** LOWEST)));
  const from = Math.max(LOWEST, Math.floor(Math.min(...logs, -3)));
  const to = Math.max(Math.floor(Math.max(...logs, -3)) + 1, -2);
  const ticks = Array.from({ length: to - from + 1 }, (_, step) => 10 ** (from + step));
  return { from, to, ticks, bins: (to - from) * PER_DECADE };
}

/** Where on the axis a value stands, from 0 to 1. */
export function position(value, { from, to }) {
  const at = (Math.log10(Math.max(value, 10 ** from)) - from) / (to - from);
  return Math.min(1, Math.max(0, at));
}

const bin = (value, axis) => Math.min(axis.bins - 1, Math.floor(position(value, axis) * axis.bins + 1e-9));

/** The value that the share `q` of them does not exceed. */
export function quantile(sorted, q) {
  return sorted[Math.max(0, Math.ceil(sorted.length * q) - 1)];
}

/** A tick of the axis, in words. */
export function tickText(seconds) {
  if (seconds >= 0.9999) return `${Math.round(seconds)} s`;
  return `${Number((seconds * 1000).toPrecision(1))} ms`;
}
