// From points, roofs, size and theme to what the library draws: a pure function.

import { lookOf, type Theme } from "@sglab/core";
import {
  bandwidthOf,
  type Decades,
  decadesOf,
  type Roof,
  roofsOf,
  type Spot,
  seriesOf,
  ticksIn,
} from "./model";
import type { Machine, Origin } from "./protocol";
import { shortKind, si } from "./words";

export interface Scene {
  machine: Machine;
  spots: readonly Spot[];
  /** Spots below are drawn in full; the last of them is the selected one. */
  lit: number;
  width: number;
  height: number;
  theme: Theme;
}

export interface Figure {
  data: object[];
  layout: Record<string, unknown>;
}

/** Form says what colour does not: hollow without a time, filled with one. */
export const SYMBOLS: Record<Origin, string> = {
  arithmetic: "diamond-open",
  emulated: "circle-open",
  modelled: "square",
  measured: "triangle-up",
};
const SIZES: Record<Origin, number> = { arithmetic: 11, emulated: 11, modelled: 9, measured: 12 };
export const MARGIN = { l: 88, r: 14, t: 8, b: 44 };
const TICK_WIDTH = 62; // px
const TICK_HEIGHT = 34;
const LABEL = 23; // px between roofs that a label needs
export const CLEAR = 2; // px between a label and its roof
const PALE = 0.4;
/** A yellow too pale for a line on a light ground is left out. */
const HUES = [4, 5, 2, 6, 0, 1, 7];

export function colourOf(series: number, dark: boolean): string {
  const hues = dark ? [1, 0, 2, 6, 5, 3, 7] : HUES;
  return lookOf(hues[series % hues.length] as number, dark).fill;
}

export function figure(scene: Scene): Figure {
  const { machine, spots, width, height, theme } = scene;
  const roofs = roofsOf(machine, spots);
  const decades = decadesOf(machine, roofs, spots);
  const inner = { width: width - MARGIN.l - MARGIN.r, height: height - MARGIN.t - MARGIN.b };
  const axis = {
    type: "log",
    showline: true,
    linecolor: theme.border,
    gridcolor: theme.border,
    zeroline: false,
    ticks: "outside",
    tickcolor: theme.border,
    fixedrange: false,
  };
  const { x: xs, y: ys } = ticksOf(scene, decades);
  return {
    data: [...roofTraces(machine, roofs, decades.x, theme), ...pointTraces(scene)],
    layout: {
      width,
      height,
      margin: MARGIN,
      autosize: false,
      showlegend: false,
      hovermode: "closest",
      hoverdistance: 14,
      dragmode: "zoom",
      uirevision: machine.name,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: theme.uiFont, size: 12, color: theme.text },
      xaxis: {
        ...axis,
        range: decades.x,
        ...xs,
        title: { text: "arithmetic intensity: FLOP per byte of memory traffic", standoff: 6 },
      },
      yaxis: {
        ...axis,
        range: decades.y,
        ...ys,
      },
      annotations: labels(machine, roofs, decades, inner, theme),
    },
  };
}

interface Ticks {
  tickvals: number[];
  ticktext: string[];
}

/** Both axes' ticks for what is in sight, which a zoom changes. */
export function ticksOf({ width, height }: Scene, shown: { x: Decades; y: Decades }): { x: Ticks; y: Ticks } {
  const made = (powers: number[], text: (value: number) => string): Ticks => ({
    tickvals: powers.map((power) => 10 ** power),
    ticktext: powers.map((power) => text(Number((10 ** power).toPrecision(3)))),
  });
  const xs = ticksIn(shown.x, (width - MARGIN.l - MARGIN.r) / TICK_WIDTH);
  const ys = ticksIn(shown.y, (height - MARGIN.t - MARGIN.b) / TICK_HEIGHT);
  return { x: made(xs, tickText), y: made(ys, (value) => si(value, "FLOP/s")) };
}

/** What a step changes of a figure that is drawn: the points' opacity. The library restyles it at once. */
export interface Change {
  style: Record<string, unknown>;
  /** Of the points. */
  traces: number[];
}

export function change(scene: Scene): Change {
  const before = roofsOf(scene.machine, scene.spots).length + 1;
  const groups = groupsOf(scene.spots);
  return {
    style: { "marker.opacity": groups.map(({ own }) => opacities(own, scene.lit)) },
    traces: groups.map((_, i) => before + i),
  };
}

function tickText(value: number): string {
  return value < 1 ? String(value) : value.toLocaleString("en-US");
}

function roofTraces(machine: Machine, roofs: readonly Roof[], [low, high]: [number, number], theme: Theme) {
  const bandwidth = bandwidthOf(machine);
  const top = Math.max(...roofs.map(({ ridge }) => ridge));
  const line = (x: number[], y: number[], dash: string) => ({
    type: "scatter",
    mode: "lines",
    x,
    y,
    line: { color: theme.text, width: 1.5, dash },
    hoverinfo: "skip",
  });
  const left = 10 ** (low - 1);
  return [
    line([left, top], [left * bandwidth, top * bandwidth], "solid"),
    ...roofs.map(({ kinds, peak, ridge }) =>
      line([ridge, 10 ** (high + 1)], [peak, peak], kinds.includes("bf16") ? "solid" : "dash"),
    ),
  ];
}

/** The roofs' names: the horizontal ones at their right end, bandwidth along its slope. */
function labels(
  machine: Machine,
  roofs: readonly Roof[],
  decades: { x: [number, number]; y: [number, number] },
  inner: { width: number; height: number },
  theme: Theme,
): object[] {
  const bandwidth = bandwidthOf(machine);
  const common = { showarrow: false, font: { size: 12, color: theme.text }, captureevents: false };
  const opaque = { bgcolor: theme.background, borderpad: 0 }; // no grid line through a name
  const [perX, perY] = [
    inner.width / (decades.x[1] - decades.x[0]),
    inner.height / (decades.y[1] - decades.y[0]),
  ];
  const at = decades.x[0] + Math.max(0.5, 58 / perX);
  const angle = Math.atan2(perY, perX);
  const away = 11; // px from the line, to its upper left
  const under = (i: number) =>
    Math.log10((roofs[i - 1]?.peak ?? Number.POSITIVE_INFINITY) / (roofs[i] as Roof).peak) * perY < LABEL;
  return [
    ...roofs.map(({ kinds, peak }, i) => ({
      ...common,
      ...opaque,
      x: decades.x[1],
      y: Math.log10(peak),
      xanchor: "right",
      ...(under(i) ? { yanchor: "top", yshift: -CLEAR } : { yanchor: "bottom", yshift: CLEAR }),
      text: `${kinds.map(shortKind).join(", ")} ${si(peak, "FLOP/s")}`,
    })),
    {
      ...common,
      x: at,
      y: at + Math.log10(bandwidth),
      xshift: -away * Math.sin(angle),
      yshift: away * Math.cos(angle),
      textangle: (-angle * 180) / Math.PI,
      text: `memory ${si(bandwidth, "B/s")}`,
    },
  ];
}

type Placed = Spot & { at: number };

/** The points of one series and origin are one trace. */
function groupsOf(spots: readonly Spot[]): { name: string; series: number; origin: Origin; own: Placed[] }[] {
  return seriesOf(spots).flatMap((name, series) =>
    (Object.keys(SYMBOLS) as Origin[]).flatMap((origin) => {
      const placed = spots.map((spot, at) => ({ ...spot, at }));
      const own = placed.filter(({ mark }) => mark.series === name && mark.origin === origin);
      return own.length ? [{ name, series, origin, own }] : [];
    }),
  );
}

function opacities(own: readonly Placed[], lit: number): number[] {
  return own.map(({ at }) => (at < lit ? 1 : PALE));
}

/** Points are joined by lines where there is a series. */
function pointTraces({ spots, lit, theme }: Scene): object[] {
  return groupsOf(spots).map(({ name, series, origin, own }) => {
    const color = colourOf(series, theme.dark);
    const hollow = SYMBOLS[origin].endsWith("open");
    return {
      type: "scatter",
      mode: name && own.length > 1 ? "lines+markers" : "markers",
      x: own.map(({ x }) => x),
      y: own.map(({ y }) => y),
      customdata: own.map(({ at }) => at),
      hoverinfo: "none",
      line: { color, width: 1, dash: hollow ? "dot" : "solid" },
      marker: {
        symbol: SYMBOLS[origin],
        size: SIZES[origin],
        color,
        opacity: opacities(own, lit),
        line: { color: hollow ? color : theme.background, width: 2 },
      },
    };
  });
}
