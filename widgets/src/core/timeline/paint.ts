// A timeline's rows on a canvas. Span by span where there is room for it, else by the pyramid: how high a bar stands says
// which share of that stretch it covers.

import type { CanvasPaint, Look } from "../colors";
import type { Theme } from "../theme";
import { AXIS_HEIGHT, type Layout, type RowBox } from "./layout";
import type { Hit, Profile, TimelineModel } from "./model";
import type { Level, Pyramid } from "./pyramid";
import { type Range, span, ticks } from "./range";
import { firstEndingAfter, firstStartingFrom, type Spans } from "./spans";

export interface Scene {
  model: TimelineModel;
  layout: Layout;
  /** By row and lane. */
  pyramids: Pyramid[][];
  range: Range;
  cursor: number;
  selected: Hit | undefined;
  /** Rows to stress; the others are dimmed. Empty: all alike. */
  stressed: ReadonlySet<number>;
  width: number;
  theme: Theme;
}

const DIMMED = 0.4;
const ALIVE = 0.2;
const LINKS_AT_MOST = 160;
const SEPARATED = 4; // px per span from which neighbours get a gap
const LABELLED = 26;

export function paintTimeline(context: CanvasRenderingContext2D, paint: CanvasPaint, scene: Scene): void {
  const { layout, theme, width } = scene;
  context.clearRect(0, 0, width, layout.height);
  context.textBaseline = "middle";
  paintAxis(context, scene);
  for (let row = 0; row < scene.model.rows.length; row++) {
    context.globalAlpha = scene.stressed.size && !scene.stressed.has(row) ? DIMMED : 1;
    paintRow(context, paint, scene, row);
  }
  context.globalAlpha = 1;
  paintLinks(context, scene);
  paintSelected(context, scene);
  const x = xOf(scene, scene.cursor);
  context.fillStyle = theme.focus;
  context.fillRect(Math.round(x) - 1, AXIS_HEIGHT - 6, 2, layout.height);
  context.beginPath();
  context.moveTo(x - 5, AXIS_HEIGHT - 8);
  context.lineTo(x + 5, AXIS_HEIGHT - 8);
  context.lineTo(x, AXIS_HEIGHT - 1);
  context.fill();
}

export function xOf({ range, width }: Pick<Scene, "range" | "width">, at: number): number {
  return ((at - range.start) / span(range)) * width;
}

function paintAxis(context: CanvasRenderingContext2D, scene: Scene): void {
  const { range, width, theme, layout, model } = scene;
  const every = ticks(range, (110 * span(range)) / width);
  const step = every.length > 1 ? (every[1] as number) - (every[0] as number) : span(range);
  context.font = `11px ${theme.uiFont}`;
  context.textAlign = "center";
  for (const at of every) {
    const x = Math.round(xOf(scene, at));
    context.fillStyle = theme.border;
    context.globalAlpha = 0.5;
    context.fillRect(x, AXIS_HEIGHT - 4, 1, layout.height);
    context.globalAlpha = 1;
    const text = model.format(at, step);
    const half = context.measureText(text).width / 2;
    if (x - half < 0 || x + half > width) continue;
    context.fillStyle = theme.muted;
    context.fillText(text, x, (AXIS_HEIGHT - 6) / 2 + 1);
  }
}

function paintRow(context: CanvasRenderingContext2D, paint: CanvasPaint, scene: Scene, row: number): void {
  const { model, layout, pyramids } = scene;
  const { lanes, alive, waits, look, profiles } = model.rows[row] as TimelineModel["rows"][number];
  const box = layout.rows[row] as RowBox;
  const before = context.globalAlpha;
  if (alive) {
    context.globalAlpha = before * ALIVE;
    context.fillStyle = (model.looks[look ?? 0] as Look).fill;
    eachVisible(alive, scene, (from, to) => context.fillRect(from, box.y, to - from, box.height));
    context.globalAlpha = before;
  }
  for (const profile of profiles ?? []) paintProfile(context, paint, scene, profile, box);
  if (waits) paintWaits(context, scene, waits, box);
  const height = box.height / lanes.length;
  lanes.forEach((lane, i) => {
    const pyramid = pyramids[row]?.[i];
    const laneBox = { y: box.y + i * height, height: lanes.length > 1 ? height - 1 : height };
    const visible = firstStartingFrom(lane, scene.range.end) - firstEndingAfter(lane, scene.range.start);
    const level = visible > scene.width / 2 ? pyramid?.levelFor(span(scene.range) / scene.width) : undefined;
    if (level) paintLevel(context, paint, scene, level, laneBox);
    else paintSpans(context, paint, scene, row, lane, laneBox);
  });
}

/** The visible parts of spans, in pixels; those that touch on the screen as one. */
function eachVisible(
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

function paintSpans(
  context: CanvasRenderingContext2D,
  paint: CanvasPaint,
  scene: Scene,
  row: number,
  spans: Spans,
  { y, height }: RowBox,
): void {
  const { model, range, width } = scene;
  const scale = width / span(range);
  const wide = (i: number) => ((spans.end[i] as number) - (spans.start[i] as number)) * scale >= SEPARATED;
  const joins = (left: number, right: number) =>
    spans.look[left] === spans.look[right] && !wide(left) && !wide(right);
  eachVisible(
    spans,
    scene,
    (from, to, first, last) => {
      const look = model.looks[spans.look[first] as number] as Look;
      const gap = wide(first) ? 1 : 0;
      const shown = Math.max(1, to - from - gap);
      context.fillStyle = paint.fill(look);
      context.fillRect(from, y, shown, height);
      if (first === last && shown >= LABELLED && height >= 12)
        paintLabel(context, scene, model.barLabel(row, spans.id[first] as number), look, {
          x: from,
          y,
          width: shown,
          height,
        });
    },
    joins,
  );
}

function paintLabel(
  context: CanvasRenderingContext2D,
  { theme }: Scene,
  text: string,
  look: Look,
  { x, y, width, height }: { x: number; y: number; width: number; height: number },
): void {
  context.font = `11px ${theme.codeFont}`;
  context.textAlign = "left";
  const from = Math.max(x, 0) + 4;
  const room = x + width - from - 4;
  const per = context.measureText("m").width;
  const shown = text.length * per <= room ? text : text.slice(0, Math.max(0, Math.floor(room / per)));
  if (shown.length < 3) return;
  // the hatch would run through the letters
  context.fillStyle = look.fill;
  context.fillRect(from - 2, y + 1, shown.length * per + 4, height - 2);
  context.fillStyle = look.ink;
  context.fillText(shown, from, y + height / 2 + 0.5);
}

function paintLevel(
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
function paintProfile(
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
    // a value that lasts beyond this pixel is drawn by itself
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

function paintWaits(context: CanvasRenderingContext2D, scene: Scene, waits: Spans, box: RowBox): void {
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
function paintLinks(context: CanvasRenderingContext2D, scene: Scene): void {
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

function paintSelected(context: CanvasRenderingContext2D, scene: Scene): void {
  const { selected, model, layout, theme } = scene;
  const row = selected && model.rows[selected.row];
  const box = selected && layout.rows[selected.row];
  if (!selected || !row || !box) return;
  const spans = selected.layer === "wait" ? row.waits : row.lanes[selected.lane];
  if (!spans || selected.index >= spans.size) return;
  const from = xOf(scene, spans.start[selected.index] as number);
  const to = xOf(scene, spans.end[selected.index] as number);
  const lanes = selected.layer === "wait" ? 1 : row.lanes.length;
  const height = box.height / lanes;
  const lane = selected.layer === "wait" ? 0 : selected.lane;
  const grown = Math.max(0, 6 - (to - from)) / 2; // what is a hair wide must still be found
  context.strokeStyle = theme.background;
  context.lineWidth = 4;
  context.strokeRect(from - 1 - grown, box.y + lane * height - 1, to - from + 2 + 2 * grown, height + 2);
  context.strokeStyle = theme.focus;
  context.lineWidth = 2;
  context.strokeRect(from - 1 - grown, box.y + lane * height - 1, to - from + 2 + 2 * grown, height + 2);
}
