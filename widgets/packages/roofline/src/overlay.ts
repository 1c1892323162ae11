// What is selected, over the library's plot: a step moves it without asking the library to draw.

import { s } from "@sglab/core";
import { MARGIN, type Scene } from "./figure";

/** Of the axes, as powers of ten. */
export interface Ranges {
  x: [number, number];
  y: [number, number];
}

const RING = 10; // px around the selected point

/** Where the selected point and its roof lie, in px of the plot's inside; undefined where nothing is selected. */
export function selectedPlace(
  { spots, lit, width, height }: Scene,
  { x, y }: Ranges,
): { x: number; y: number; roof: number } | undefined {
  const now = spots[lit - 1];
  if (!now) return undefined;
  const inner = [width - MARGIN.l - MARGIN.r, height - MARGIN.t - MARGIN.b] as const;
  const down = (rate: number) => inner[1] * (1 - (Math.log10(rate) - y[0]) / (y[1] - y[0]));
  return {
    x: (inner[0] * (Math.log10(now.x) - x[0])) / (x[1] - x[0]),
    y: down(now.y),
    roof: down(Math.max(now.y, now.place.attainable)),
  };
}

/** A ring around the selected point, and a line from it to its roof: what it leaves unused. */
export function drawOverlay(svg: SVGElement, scene: Scene, ranges: Ranges): void {
  svg.style.cssText = `left:${MARGIN.l}px;top:${MARGIN.t}px`;
  svg.setAttribute("width", String(scene.width - MARGIN.l - MARGIN.r));
  svg.setAttribute("height", String(scene.height - MARGIN.t - MARGIN.b));
  const at = selectedPlace(scene, ranges);
  if (!at) {
    svg.replaceChildren();
    return;
  }
  const line = { stroke: scene.theme.focus, fill: "none" };
  const ring = { x: at.x - RING, y: at.y - RING, width: 2 * RING, height: 2 * RING };
  const gap = { x1: at.x, x2: at.x, y1: at.roof, y2: at.y, "stroke-width": 1.5, "stroke-dasharray": "2 3" };
  svg.replaceChildren(
    ...(at.roof < at.y ? [s("line", { ...line, ...gap, class: "srf-gap" })] : []),
    s("rect", { ...line, ...ring, "stroke-width": 2, class: "srf-ring" }),
  );
}

/** The axes' ranges in a layout, or in the library's word about a change of it; what it leaves out is as before. */
export function rangesIn(layout: object | undefined, before: Ranges): Ranges {
  const found = (layout ?? {}) as Record<string, unknown>;
  const of = (axis: "x" | "y"): [number, number] => {
    const whole =
      (found[`${axis}axis`] as { range?: unknown } | undefined)?.range ?? found[`${axis}axis.range`];
    const ends = Array.isArray(whole) ? whole : [0, 1].map((end) => found[`${axis}axis.range[${end}]`]);
    return [Number(ends[0] ?? before[axis][0]), Number(ends[1] ?? before[axis][1])];
  };
  return { x: of("x"), y: of("y") };
}
