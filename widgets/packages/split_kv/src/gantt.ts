// Where each work unit is in a pane: rows are SM slots, x is modelled time. Pure: no DOM, no state.

import type { Work } from "./data";
import { type Groups, groupItems } from "./grouping";
import type { Pane } from "./protocol";

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface GanttLayout {
  plot: Box;
  rows: number;
  rowHeight: number;
  /** The time at the plot's right edge, in KV tokens. */
  domain: number;
  /** Times of the axis' ticks. */
  ticks: number[];
  /** Rows that get a label. */
  labels: { row: number; text: string }[];
}

const LEFT = 46;
export const RIGHT = 10;
const TOP = 2;
export const AXIS_HEIGHT = 33; // a line of numbers, a line for their unit

/** Row heights that keep a pane of `rows` near `target` pixels. */
export function rowHeightFor(rows: number, target: number): number {
  return Math.max(1, Math.min(22, Math.floor(target / rows)));
}

export function ganttLayout(pane: Pane, width: number, rowHeight: number, domain: number): GanttLayout {
  const rows = pane.smCount * pane.ctasPerSm;
  const plot = { x: LEFT, y: TOP, width: Math.max(40, width - LEFT - RIGHT), height: rows * rowHeight };
  const perLabel = Math.max(1, Math.ceil(14 / (rowHeight * pane.ctasPerSm)));
  const step = niceStep(perLabel);
  const labels = [];
  for (let sm = 0; sm < pane.smCount; sm += step) labels.push({ row: sm * pane.ctasPerSm, text: `SM ${sm}` });
  return { plot, rows, rowHeight, domain, ticks: niceTicks(domain, Math.max(2, plot.width / 90)), labels };
}

export function rowOf(work: Work, i: number, ctasPerSm: number): number {
  return (work.sm[i] as number) * ctasPerSm + (work.slot[i] as number);
}

export function xOf({ plot, domain }: GanttLayout, time: number): number {
  return plot.x + (time / Math.max(1, domain)) * plot.width;
}

/** The work of every row in order of time, for finding what is under the pointer. */
export function indexRows(work: Work, rows: number, ctasPerSm: number): Groups {
  const index = groupItems(work.size, rows, (i) => rowOf(work, i, ctasPerSm));
  for (let row = 0; row < rows; row++)
    index.items
      .subarray(index.indptr[row], index.indptr[row + 1])
      .sort((a, b) => (work.wave[a] as number) - (work.wave[b] as number));
  return index;
}

/** The work unit at a point of the canvas, or -1. */
export function unitAt(layout: GanttLayout, work: Work, index: Groups, x: number, y: number): number {
  const { plot, rowHeight, domain } = layout;
  const row = Math.floor((y - plot.y) / rowHeight);
  const time = ((x - plot.x) / plot.width) * domain;
  if (row < 0 || row >= layout.rows || time < 0) return -1;
  let low = index.indptr[row] as number;
  let high = index.indptr[row + 1] as number;
  const last = high;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((work.end[index.items[middle] as number] as number) <= time) low = middle + 1;
    else high = middle;
  }
  const found = low < last ? (index.items[low] as number) : -1;
  return found >= 0 && (work.start[found] as number) <= time ? found : -1;
}

/** 1, 2, 4, 8, 16, … at least `least`: divisors of what SMs come in. */
function niceStep(least: number): number {
  return 2 ** Math.ceil(Math.log2(least));
}

/** About `count` round numbers from 0 to `end`. */
export function niceTicks(end: number, count: number): number[] {
  const rough = Math.max(1, end / count);
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * unit).find((size) => size >= rough) ?? unit * 10;
  const ticks = [];
  for (let tick = 0; tick <= end * 1.0001; tick += step) ticks.push(Math.round(tick));
  return ticks;
}
