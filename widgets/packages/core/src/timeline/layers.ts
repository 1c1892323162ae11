// The layers of a timeline's row but its bars, and the links between rows.

import type { CanvasPaint, Look } from "../colors";
import type { RowBox } from "./layout";
import type { Profile } from "./model";
import type { Level } from "./pyramid";
import { span } from "./range";
import { DIMMED, type Scene, xOf } from "./scene";
import { firstEndingAfter, type Spans } from "./spans";

const LINKS_AT_MOST = 160;

/** The visible parts of spans, in pixels; those that touch on the screen as one. */
export function eachVisible(
  spans: Spans,
  scene: Scene,
  draw: (from: number, to: number, first: number, last: number) => void,
  mayJoin: (left: number, right: number) => boolean = () => true,
): void {
  const { range, width } = scene;
  const scale = width / span(range);
  let i = firstEndingAfter(spans, range.start);
  while (i < spans.size && (spans.start[i] as number) < range.end) {
    const first = i;
    const from = ((spans.start[i] as number) - range.start) * scale;
    let to = ((spans.end[i] as number) - range.start) * scale;
    i += 1;
    while (i < spans.size && mayJoin(first, i)) {
      const next = ((spans.start[i] as number) - range.start) * scale;
      if (next > to + 0.5 || next > width) break;
      to = Math.max(to, ((spans.end[i] as number) - range.start) * scale);
      i += 1;
    }
    draw(Math.max(-2, from), Math.min(width + 2, to), first, i - 1);
  }
}

export function paintLevel(
  context: CanvasRenderingContext2D,
  paint: CanvasPaint,
  scene: Scene,
  level: Level,
  { y, height }: RowBox,
): void {
  const { range, width, model } = scene;
  const perBin = (level.width / span(range)) * width;
  const first = Math.max(0, Math.floor(range.start / level.width));
  const last = Math.min(level.cover.length, Math.ceil(range.end / level.width));
  const bottom = y + height;
  let open = -1; // the look of the outline under way
  const close = (x: number) => {
    context.lineTo(x, bottom);
    context.fillStyle = paint.fill(model.looks[open] as Look);
    context.fill();
    open = -1;
  };
  for (let bin = first; bin < last; bin++) {
    const share = (level.cover[bin] as number) / level.width;
    const x = ((bin * level.width - range.start) / span(range)) * width;
    const look = share > 0 ? (level.look[bin] as number) : -1;
    if (open >= 0 && look !== open) close(x);
    if (look < 0) continue;
    if (open < 0) {
      open = look;
      context.beginPath();
      context.moveTo(x, bottom);
    }
    const top = bottom - Math.max(2, height * Math.min(1, share));
    context.lineTo(x, top);
    context.lineTo(x + perBin, top);
  }
  if (open >= 0) close(Math.min(width + 2, ((last * level.width - range.start) / span(range)) * width));
}

/** Of the values that share a pixel, the highest is drawn. */
export function paintProfile(
  context: CanvasRenderingContext2D,
  paint: CanvasPaint,
  scene: Scene,
  { x: xs, y: ys, look, line }: Profile,
  { y, height }: RowBox,
): void {
  const { range, width, model } = scene;
  const scale = width / span(range);
  const bottom = y + height;
  const yOf = (value: number) => bottom - value * (height - 1);
  const edge = (k: number) => (k < xs.length ? ((xs[k] as number) - range.start) * scale : width);
  let i = Math.max(0, firstAtLeast(xs, range.start) - 1); // what holds at the left edge
  let from = Math.max(0, edge(i));
  context.beginPath();
  context.moveTo(from, bottom);
  while (i < xs.length && edge(i) < width) {
    let highest = ys[i] as number;
    // a value that lasts beyond this pixel is drawn on its own
    for (i += 1; i < xs.length && edge(i + 1) < from + 1; i++) highest = Math.max(highest, ys[i] as number);
    const to = Math.min(width, edge(i));
    context.lineTo(from, yOf(highest));
    context.lineTo(to, yOf(highest));
    from = to;
  }
  if (line) {
    context.strokeStyle = scene.theme.text;
    context.lineWidth = 1;
    context.stroke();
    return;
  }
  context.lineTo(from, bottom);
  context.fillStyle = paint.fill(model.looks[look] as Look);
  context.fill();
}

export function paintWaits(context: CanvasRenderingContext2D, scene: Scene, waits: Spans, box: RowBox): void {
  context.strokeStyle = scene.theme.text;
  context.lineWidth = 1;
  context.setLineDash([3, 3]);
  const y = Math.round(box.y + box.height / 2) + 0.5;
  context.beginPath();
  eachVisible(waits, scene, (from, to) => {
    if (to - from < 2) return;
    context.moveTo(from, y);
    context.lineTo(to, y);
  });
  context.stroke();
  context.setLineDash([]);
}

/** From what released to who had waited; too many would be a curtain. */
export function paintLinks(context: CanvasRenderingContext2D, scene: Scene): void {
  const { model, layout, range, theme } = scene;
  const { links } = model;
  const first = firstAtLeast(links.toX, range.start);
  const last = firstAtLeast(links.toX, range.end);
  if (last - first > LINKS_AT_MOST) return;
  context.strokeStyle = theme.text;
  context.lineWidth = 1;
  context.setLineDash([2, 3]);
  for (let i = first; i < last; i++) {
    const from = layout.rows[links.fromRow[i] as number];
    const to = layout.rows[links.toRow[i] as number];
    if (!from || !to) continue;
    const stressed = scene.stressed;
    const off =
      stressed.size && !stressed.has(links.fromRow[i] as number) && !stressed.has(links.toRow[i] as number);
    context.globalAlpha = off ? DIMMED / 2 : 0.55;
    const x0 = xOf(scene, links.fromX[i] as number);
    const x1 = xOf(scene, links.toX[i] as number);
    const y0 = from.y + (to.y > from.y ? from.height : 0);
    const y1 = to.y + to.height / 2;
    context.beginPath();
    context.moveTo(x0, y0);
    context.lineTo(x0, y1);
    context.lineTo(x1, y1);
    context.stroke();
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
}

function firstAtLeast(ascending: Float64Array, x: number): number {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ascending[middle] as number) < x) low = middle + 1;
    else high = middle;
  }
  return low;
}
