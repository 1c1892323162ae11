// m, d, the rescale factor and the error after every tile: four small charts with one cursor.

import { h, s } from "../core";
import type { Recorded } from "./data";
import type { FormulaName } from "./formulas";
import { type Base, errorText, number } from "./numbers";

const HEIGHT = 84;
const LEFT = 6;
const TOP = 6;
const BOTTOM = 6;

interface Chart {
  title: string;
  /** What the selected formula keeps after each tile. */
  value: (step: number) => number;
  /** What the right one keeps; drawn thin and dashed where they differ. */
  right: (step: number) => number;
  text: (value: number) => string;
  logarithmic?: boolean;
}

export interface HistoryShown {
  recorded: Recorded;
  formula: FormulaName;
  base: Base;
  /** Tiles that have been summed. */
  done: number;
}

export function historyView(shown: HistoryShown, width: number): HTMLElement {
  const columns = width >= 640 ? 4 : 2;
  const each = Math.floor((width - 10 * (columns - 1)) / columns);
  const charts = chartsOf(shown).map((chart) => {
    const last = shown.done - 1;
    const now = last >= 0 ? chart.text(chart.value(last)) : "–";
    return h(
      "figure",
      { class: "sgs-chart" },
      h("figcaption", {}, chart.title, " ", h("strong", {}, now)),
      drawChart(shown, chart, each),
    );
  });
  const box = h("div", { class: "sgs-history" }, ...charts);
  box.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
  return box;
}

function chartsOf({ recorded, formula, base }: HistoryShown): Chart[] {
  const unit = base === "2" ? 1 : Math.LN2;
  const state = (step: number) => recorded.state(formula, step);
  const right = (step: number) => recorded.state("online", step);
  return [
    {
      title: base === "2" ? "m, base 2" : "m, natural",
      value: (step) => state(step).top * unit,
      right: (step) => right(step).top * unit,
      text: number,
    },
    {
      title: "rescale α",
      value: (step) => state(step).rescale,
      right: (step) => right(step).rescale,
      text: number,
    },
    { title: "d", value: (step) => state(step).total, right: (step) => right(step).total, text: number },
    {
      title: "error of O / d",
      value: (step) => state(step).error,
      right: (step) => right(step).error,
      text: errorText,
      logarithmic: true,
    },
  ];
}

function drawChart({ recorded, done }: HistoryShown, chart: Chart, width: number): SVGSVGElement {
  const steps = recorded.tiles.length;
  const scale = (value: number) => (chart.logarithmic ? Math.log10(Math.max(value, 1e-9)) : value);
  const all = Array.from({ length: steps }, (_, step) => [chart.value(step), chart.right(step)])
    .flat()
    .map(scale)
    .filter(Number.isFinite);
  const [low, high] = all.length ? [Math.min(...all), Math.max(...all)] : [0, 1];
  const x = (step: number) => LEFT + ((width - 2 * LEFT) * (step + 0.5)) / Math.max(1, steps);
  const y = (value: number) => TOP + ((HEIGHT - TOP - BOTTOM) * (high - scale(value))) / (high - low || 1);
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
    "aria-label": `${chart.title} after ${done} of ${steps} tiles: ${done ? chart.text(chart.value(done - 1)) : "nothing yet"}`,
  });
  svg.append(
    s("rect", { x: 0.5, y: 0.5, width: width - 1, height: HEIGHT - 1, class: "sgs-plot" }),
    s("path", { d: path(chart.right), class: "sgs-right" }),
    s("path", { d: path(chart.value), class: "sgs-line" }),
  );
  recorded.steps.slice(1).forEach((split) => {
    const edge = split && (x(split.first - 1) + x(split.first)) / 2;
    if (edge) svg.append(s("line", { x1: edge, x2: edge, y1: 1, y2: HEIGHT - 1, class: "sgs-edge" }));
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

function cross(x: number, y: number): string {
  return `M${x - 4},${y - 4}l8,8M${x + 4},${y - 4}l-8,8`;
}
