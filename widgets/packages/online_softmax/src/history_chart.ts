// One small chart: a value after every tile, with its axes, beside the right formula's.

import { format, s } from "@sglab/core";
import type { Recorded } from "./data";

const HEIGHT = 98;
const LEFT = 44;
const RIGHT = 6;
const TOP = 6;
const BOTTOM = 16;

export interface Chart {
  title: string;
  /** What hovering says. */
  meaning: string;
  /** What the selected formula keeps after each tile. */
  value: (step: number) => number;
  /** What the right one keeps; drawn thin and dashed where they differ. */
  right: (step: number) => number;
  text: (value: number) => string;
  /** The same on the axis, whose ends are written alike; absent, as `text`. */
  axis?: (ends: readonly number[]) => string[];
  logarithmic?: boolean;
  /** Values that the axis holds at least. */
  least?: [number, number];
}

export function drawChart(recorded: Recorded, done: number, chart: Chart, width: number): SVGSVGElement {
  const steps = recorded.tiles.length;
  const scale = (value: number) => (chart.logarithmic ? Math.log10(Math.max(value, 1e-9)) : value);
  const all = Array.from({ length: steps }, (_, step) => [chart.value(step), chart.right(step)])
    .flat()
    .concat(chart.least ?? [])
    .map(scale)
    .filter(Number.isFinite);
  const [low, high] = all.length ? [Math.min(...all), Math.max(...all)] : [0, 1];
  const x = (step: number) => LEFT + ((width - LEFT - RIGHT) * (step + 0.5)) / Math.max(1, steps);
  const y = (value: number) =>
    TOP + ((HEIGHT - 2 * TOP - BOTTOM) * (high - scale(value))) / (high - low || 1);
  const path = (read: (step: number) => number) => {
    let split = -1;
    let d = "";
    for (let step = 0; step < done; step++) {
      const value = read(step);
      if (!Number.isFinite(value)) {
        split = -1;
        continue;
      }
      const mine = recorded.tiles[step]?.split as number;
      d += `${mine === split ? "L" : "M"}${x(step).toFixed(1)},${y(value).toFixed(1)}${mine === split ? "" : "h0.01"}`;
      split = mine;
    }
    return d;
  };
  const svg = s("svg", {
    width,
    height: HEIGHT,
    viewBox: `0 0 ${width} ${HEIGHT}`,
    role: "img",
    "aria-label": `${chart.title} after ${done} of ${format.plural(steps, "tile")}: ${done ? chart.text(chart.value(done - 1)) : "nothing yet"}`,
  });
  svg.append(
    s("rect", { x: LEFT, y: 0.5, width: width - LEFT - 0.5, height: HEIGHT - BOTTOM, class: "sgs-plot" }),
    ...axes(steps, low, high, chart, x, width),
    s("path", { d: path(chart.right), class: "sgs-right" }),
    s("path", { d: path(chart.value), class: "sgs-line" }),
  );
  recorded.steps.slice(1).forEach((split) => {
    const edge = split && (x(split.first - 1) + x(split.first)) / 2;
    if (edge) svg.append(s("line", { x1: edge, x2: edge, y1: 1, y2: HEIGHT - BOTTOM, class: "sgs-edge" }));
  });
  if (done > 0) {
    const value = chart.value(done - 1);
    const at = Number.isFinite(value) ? y(value) : TOP + 5;
    svg.append(
      Number.isFinite(value)
        ? s("circle", { cx: x(done - 1), cy: at, r: 3.5, class: "sgs-dot" })
        : s("path", { d: cross(x(done - 1), at), class: "sgs-nan" }),
    );
  }
  return svg;
}

/** The smallest and the largest value at the left, the tiles' numbers below. */
function axes(
  steps: number,
  low: number,
  high: number,
  chart: Chart,
  x: (step: number) => number,
  width: number,
): SVGElement[] {
  const text = (at: { x: number; y: number; "text-anchor": string }, said: string) =>
    s("text", { ...at, class: "sgs-axis" }, said);
  const ends = [high, low].map((at) => rounded(chart.logarithmic ? 10 ** at : at));
  const [upper, lower] = (chart.axis ?? ((values) => values.map(chart.text)))(ends) as [string, string];
  const left = { x: LEFT - 4, "text-anchor": "end" };
  const below = { y: HEIGHT - 3, "text-anchor": "middle" };
  const middle = { ...below, x: (LEFT + width) / 2 };
  return [
    text({ ...left, y: TOP + 5 }, upper),
    ...(high > low ? [text({ ...left, y: HEIGHT - BOTTOM - TOP + 4 }, lower)] : []),
    ...(steps > 1
      ? [1, steps].map((number) => text({ ...below, x: Math.min(x(number - 1), width - 10) }, String(number)))
      : []),
    text(middle, steps > 1 ? "tile" : "tile 1"),
  ];
}

/** To three digits, and never before the decimal point: other charts write the same number out. */
export function rounded(value: number): number {
  return Number(Math.abs(value) >= 1000 ? value.toFixed(0) : value.toPrecision(3));
}

function cross(x: number, y: number): string {
  return `M${x - 4},${y - 4}l8,8M${x + 4},${y - 4}l-8,8`;
}
