// Drawing a pane on a canvas. What is drawn follows from the arguments alone.

import { HATCHED_FROM, lookOf, sharedPaint, sizeCanvas, type Theme } from "@sglab/core";
import type { Selection } from "@sglab/protocol";
import { nameOf, type Work } from "./data";
import { AXIS_HEIGHT, type GanttLayout, RIGHT, rowOf, xOf } from "./gantt";
import type { Pane } from "./protocol";

const FUTURE = 0.2;
const DIMMED = 0.38;
const PALER = 0.3; // every other split, so that neighbours of one request can be distinguished

export interface PaneView {
  pane: Pane;
  work: Work;
  /** Indices of the work, grouped by request. */
  byRequest: Int32Array;
  layout: GanttLayout;
}

export function paintPane(
  canvas: HTMLCanvasElement,
  view: PaneView,
  theme: Theme,
  now: number,
  selection: Selection,
  selected: readonly number[],
): void {
  const { layout, pane } = view;
  const { plot } = layout;
  const context = sizeCanvas(canvas, plot.x + plot.width + RIGHT, plot.y + plot.height + AXIS_HEIGHT);
  context.fillStyle = theme.surface;
  context.fillRect(plot.x, plot.y, plot.width, plot.height);
  paintAxes(context, layout, theme);
  paintWork(context, view, theme, now, selection);
  paintSeams(context, layout, pane, theme);
  paintEnd(context, layout, pane, theme);
  for (const each of selected) outline(context, view, each, theme);
  if (now < pane.makespan) paintNow(context, layout, now, theme);
}

function paintWork(
  context: CanvasRenderingContext2D,
  { pane, work, byRequest, layout }: PaneView,
  theme: Theme,
  now: number,
  selection: Selection,
): void {
  const paint = sharedPaint();
  const { rowHeight, plot } = layout;
  const height = rowHeight > 3 ? rowHeight - 1 : rowHeight;
  let request = -1;
  let parity = -1;
  let solid = "";
  let pattern: CanvasPattern | string = "";
  for (const i of byRequest) {
    const odd = (work.split[i] as number) % 2;
    if (work.request[i] !== request || odd !== parity) {
      request = work.request[i] as number;
      parity = odd;
      const look = lookOf(request, theme.dark);
      const fill = odd ? mixed(look.fill, theme.dark ? "#000000" : "#ffffff", PALER) : look.fill;
      solid = fill;
      pattern = paint.fill({ ...look, fill });
    }
    const x = xOf(layout, work.start[i] as number);
    const width = xOf(layout, work.end[i] as number) - x;
    const faded = selection.request !== undefined && selection.request !== request;
    context.globalAlpha = ((work.start[i] as number) <= now ? 1 : FUTURE) * (faded ? DIMMED : 1);
    context.fillStyle = width >= HATCHED_FROM && height >= HATCHED_FROM ? pattern : solid;
    const seam = width > 4 ? 1 : 0;
    context.fillRect(
      x,
      plot.y + rowOf(work, i, pane.ctasPerSm) * rowHeight,
      Math.max(0.7, width - seam),
      height,
    );
  }
  context.globalAlpha = 1;
  if (rowHeight >= 13) labelWork(context, { pane, work, byRequest, layout }, theme, selection.request);
}

/** `share` of the way from one #rrggbb colour to another. */
function mixed(from: string, to: string, share: number): string {
  const channels = [1, 3, 5].map((at) => {
    const [a, b] = [from, to].map((color) => Number.parseInt(color.slice(at, at + 2), 16)) as [
      number,
      number,
    ];
    return Math.round(a + (b - a) * share)
      .toString(16)
      .padStart(2, "0");
  });
  return `#${channels.join("")}`;
}

/** Request and split inside boxes that are large enough. */
function labelWork(
  context: CanvasRenderingContext2D,
  view: PaneView,
  theme: Theme,
  only: number | undefined,
): void {
  const { pane, work, layout } = view;
  context.font = `11px ${theme.uiFont}`;
  context.textBaseline = "middle";
  for (let i = 0; i < work.size; i++) {
    const x = xOf(layout, work.start[i] as number);
    const width = xOf(layout, work.end[i] as number) - x;
    if (width < 44 || (only !== undefined && work.request[i] !== only)) continue;
    const look = lookOf(work.request[i] as number, theme.dark);
    const text = `${nameOf(work, work.request[i] as number)}·s${work.split[i]}`;
    const y = layout.plot.y + (rowOf(work, i, pane.ctasPerSm) + 0.5) * layout.rowHeight;
    const box = context.measureText(text).width + 4;
    if (box > width) continue; // a long name
    context.fillStyle = look.fill;
    context.fillRect(x + 2, y - 6, box, 12);
    context.fillStyle = look.ink;
    context.fillText(text, x + 4, y);
  }
}

/** Clusters are separated by a line where rows are tall enough to spare it. */
function paintSeams(context: CanvasRenderingContext2D, layout: GanttLayout, pane: Pane, theme: Theme): void {
  const perCluster = pane.clusterSize * pane.ctasPerSm;
  if (perCluster === 1 || layout.rowHeight < 4) return;
  context.fillStyle = theme.background;
  for (let row = perCluster; row < layout.rows; row += perCluster)
    context.fillRect(layout.plot.x, layout.plot.y + row * layout.rowHeight - 1, layout.plot.width, 1);
}

function paintAxes(context: CanvasRenderingContext2D, layout: GanttLayout, theme: Theme): void {
  const { plot } = layout;
  context.font = `11px ${theme.uiFont}`;
  context.fillStyle = theme.muted;
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const { row, text } of layout.labels)
    context.fillText(text, plot.x - 5, plot.y + row * layout.rowHeight + Math.max(5, layout.rowHeight / 2));
  context.textBaseline = "top";
  const right = plot.x + plot.width;
  for (const tick of layout.ticks) {
    const x = xOf(layout, tick);
    const text = tick.toLocaleString("en-US");
    const beyond = x + context.measureText(text).width / 2 > right + RIGHT;
    context.fillRect(Math.min(x, right - 1), plot.y + plot.height, 1, 4);
    context.textAlign = tick === 0 ? "left" : beyond ? "right" : "center";
    context.fillText(text, beyond ? right + RIGHT : x, plot.y + plot.height + 6);
  }
  context.textAlign = "right";
  context.fillText("KV tokens, modelled", right, plot.y + plot.height + 19);
  context.textAlign = "left";
}

/** Where the last CTA ends: a dashed line, which the idle part of every row leads up to. */
function paintEnd(context: CanvasRenderingContext2D, layout: GanttLayout, pane: Pane, theme: Theme): void {
  const x = Math.min(xOf(layout, pane.makespan), layout.plot.x + layout.plot.width - 0.5);
  line(context, x, layout, theme.text, [4, 3], 1);
}

function paintNow(context: CanvasRenderingContext2D, layout: GanttLayout, now: number, theme: Theme): void {
  line(context, xOf(layout, Math.max(0, now)), layout, theme.focus, [], 2);
}

function line(
  context: CanvasRenderingContext2D,
  x: number,
  { plot }: GanttLayout,
  color: string,
  dash: number[],
  width: number,
): void {
  context.strokeStyle = color;
  context.lineWidth = width;
  context.setLineDash(dash);
  context.beginPath();
  context.moveTo(x, plot.y);
  context.lineTo(x, plot.y + plot.height);
  context.stroke();
  context.setLineDash([]);
}

function outline(
  context: CanvasRenderingContext2D,
  { pane, work, layout }: PaneView,
  i: number,
  theme: Theme,
): void {
  const x = xOf(layout, work.start[i] as number);
  const width = Math.max(2, xOf(layout, work.end[i] as number) - x);
  const y = layout.plot.y + rowOf(work, i, pane.ctasPerSm) * layout.rowHeight;
  context.strokeStyle = theme.background;
  context.lineWidth = 4;
  context.strokeRect(x - 1, y - 1, width + 2, layout.rowHeight + 2);
  context.strokeStyle = theme.focus;
  context.lineWidth = 2;
  context.strokeRect(x - 1, y - 1, width + 2, layout.rowHeight + 2);
}
