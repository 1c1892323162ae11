// What is selected, over the library's plot: a step moves it without asking the library to draw.

import { s } from "@sglab/core";
import { CLEAR, MARGIN, type Scene } from "./figure";
import { roofsOf } from "./model";
import { shortKind, si } from "./words";

/** Of the axes, as powers of ten. */
export interface Ranges {
  x: [number, number];
  y: [number, number];
}

const RING = 10; // px around the selected point
const NAMED = 8; // of more points only the selected one has its name beside it
const LONGEST = 28; // characters
const CHARACTER = 6.6; // px of 12 px text, about
const LINE = 15; // px
const BESIDE = 15; // px from a point to its name

export interface Name {
  text: string;
  x: number;
  y: number;
  anchor: "start" | "end";
}

/** Which points have their names beside them, and where: the selected one's first, others' where nothing is covered. */
export function placeNames({ machine, spots, lit, width, height }: Scene, { x, y }: Ranges): Name[] {
  const inner = [width - MARGIN.l - MARGIN.r, height - MARGIN.t - MARGIN.b] as const;
  const places = spots.map((spot) => ({
    label: spot.mark.label,
    x: (inner[0] * (Math.log10(spot.x) - x[0])) / (x[1] - x[0]),
    y: inner[1] * (1 - (Math.log10(spot.y) - y[0]) / (y[1] - y[0])),
  }));
  const selected = places[lit - 1];
  const down = (rate: number) => inner[1] * (1 - (Math.log10(rate) - y[0]) / (y[1] - y[0]));
  const roofs = roofsOf(machine, spots).map(({ kinds, peak }) => ({
    left: inner[0] - CHARACTER * `${kinds.map(shortKind).join(", ")} ${si(peak, "FLOP/s")}`.length,
    right: inner[0],
    y: down(peak) - CLEAR,
  }));
  const wanted = [...(selected ? [selected] : []), ...(places.length > NAMED ? [] : places)];
  const named = new Map<string, Name & { left: number; right: number }>();
  for (const place of wanted) {
    if (named.has(place.label) || place.x < 0 || place.x > inner[0] || place.y < 0 || place.y > inner[1])
      continue;
    const text = place.label.length > LONGEST ? `${place.label.slice(0, LONGEST - 1)}…` : place.label;
    const long = CHARACTER * text.length;
    const marks = places
      .filter((each) => each !== place)
      .map((each) => ({ left: each.x - 6, right: each.x + 6, y: each.y + 4 }));
    const others = [...named.values(), ...marks, ...roofs];
    const free = sidesOf(place, long, inner).filter(
      ({ left, at }) =>
        !others.some(
          (other) => left < other.right && other.left < left + long && Math.abs(at - other.y) < LINE,
        ),
    );
    const found = free[0] ?? (place === selected ? sidesOf(place, long, inner)[0] : undefined);
    if (!found) continue;
    const { left, at, right } = found;
    const x = right ? left : place.x - BESIDE;
    named.set(place.label, { text, x, y: at, anchor: right ? "start" : "end", left, right: left + long });
  }
  return [...named.values()].map(({ text, x, y, anchor }) => ({ text, x, y, anchor }));
}

interface Side {
  left: number;
  at: number;
  right: boolean;
}

/** Where a name may stand, best first: below and beside the point, for above it are its roof's name and the slope. */
function sidesOf(place: { x: number; y: number }, long: number, inner: readonly [number, number]): Side[] {
  const right = { left: place.x + BESIDE, right: true };
  const left = { left: place.x - BESIDE - long, right: false };
  const downs = [LINE, 2 * LINE].map((down) => Math.min(place.y + down, inner[1] - 4));
  return [right, left]
    .flatMap((side) => downs.map((at) => ({ ...side, at })))
    .filter((side) => side.left >= 0 && side.left + long <= inner[0]);
}

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

/** The points' names, a ring around the selected one, and a line from it to its roof: what it leaves unused. */
export function drawOverlay(svg: SVGElement, scene: Scene, ranges: Ranges): void {
  svg.style.cssText = `left:${MARGIN.l}px;top:${MARGIN.t}px`;
  svg.setAttribute("width", String(scene.width - MARGIN.l - MARGIN.r));
  svg.setAttribute("height", String(scene.height - MARGIN.t - MARGIN.b));
  const names = placeNames(scene, ranges).map(({ text, x, y, anchor }) => {
    const made = s("text", { x, y, "text-anchor": anchor, class: "srf-name" });
    made.textContent = text;
    return made;
  });
  const at = selectedPlace(scene, ranges);
  if (!at) {
    svg.replaceChildren(...names);
    return;
  }
  const line = { stroke: scene.theme.focus, fill: "none" };
  const ring = { x: at.x - RING, y: at.y - RING, width: 2 * RING, height: 2 * RING };
  const gap = { x1: at.x, x2: at.x, y1: at.roof, y2: at.y, "stroke-width": 1.5, "stroke-dasharray": "2 3" };
  svg.replaceChildren(
    ...(at.roof < at.y ? [s("line", { ...line, ...gap, class: "srf-gap" })] : []),
    s("rect", { ...line, ...ring, "stroke-width": 2, class: "srf-ring" }),
    ...names,
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
