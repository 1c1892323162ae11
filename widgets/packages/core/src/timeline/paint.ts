// A timeline's rows on a canvas. Span by span where there is room for it, else by the pyramid: a bar's height says
// which share of that stretch it covers.

import type { CanvasPaint, Look } from "../colors";
import { barText } from "./bar_text";
import { eachVisible, paintLevel, paintLinks, paintProfile, paintWaits } from "./layers";
import { AXIS_HEIGHT, type RowBox } from "./layout";
import type { Hit, TimelineModel } from "./model";
import { span, ticks } from "./range";
import { ALIVE, DIMMED, type Scene, xOf } from "./scene";
import { firstEndingAfter, firstStartingFrom, type Spans } from "./spans";

const SEPARATED = 4; // px per span from which neighbours get a gap
const LABELLED = 26;

export function paintTimeline(context: CanvasRenderingContext2D, paint: CanvasPaint, scene: Scene): void {
  const { layout, width } = scene;
  context.clearRect(0, 0, width, layout.height);
  context.textBaseline = "middle";
  paintAxis(context, scene);
  for (let row = 0; row < scene.model.rows.length; row++) {
    context.globalAlpha = scene.stressed.size && !scene.stressed.has(row) ? DIMMED : 1;
    paintRow(context, paint, scene, row);
  }
  context.globalAlpha = 1;
  paintLinks(context, scene);
  for (const hit of scene.marked) paintOutline(context, scene, hit, 1);
  if (scene.selected) paintOutline(context, scene, scene.selected, 2);
}

export function paintCursor(context: CanvasRenderingContext2D, scene: Scene): void {
  const { layout, theme } = scene;
  const x = xOf(scene, scene.cursor);
  context.fillStyle = theme.focus;
  context.fillRect(Math.round(x) - 1, AXIS_HEIGHT - 6, 2, layout.height);
  context.beginPath();
  context.moveTo(x - 5, AXIS_HEIGHT - 8);
  context.lineTo(x + 5, AXIS_HEIGHT - 8);
  context.lineTo(x, AXIS_HEIGHT - 1);
  context.fill();
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
  const shown = barText(text, Math.floor(room / per));
  if (!shown) return;
  // the hatch would run through the letters
  context.fillStyle = look.fill;
  context.fillRect(from - 2, y + 1, shown.length * per + 4, height - 2);
  context.fillStyle = look.ink;
  context.fillText(shown, from, y + height / 2 + 0.5);
}

function paintOutline(context: CanvasRenderingContext2D, scene: Scene, hit: Hit, lineWidth: number): void {
  const { model, layout, theme, width } = scene;
  const row = model.rows[hit.row];
  const box = layout.rows[hit.row];
  if (!row || !box) return;
  const spans = hit.layer === "wait" ? row.waits : row.lanes[hit.lane];
  if (!spans || hit.index >= spans.size) return;
  const from = xOf(scene, spans.start[hit.index] as number);
  const to = xOf(scene, spans.end[hit.index] as number);
  if (to < 0 || from > width) return;
  const lanes = hit.layer === "wait" ? 1 : row.lanes.length;
  const height = box.height / lanes;
  const lane = hit.layer === "wait" ? 0 : hit.lane;
  const grown = Math.max(0, 6 - (to - from)) / 2; // what is a hair wide must still be found
  const outline = [
    from - 1 - grown,
    box.y + lane * height - 1,
    to - from + 2 + 2 * grown,
    height + 2,
  ] as const;
  context.strokeStyle = theme.background;
  context.lineWidth = lineWidth + 2;
  context.strokeRect(...outline);
  context.strokeStyle = theme.focus;
  context.lineWidth = lineWidth;
  context.strokeRect(...outline);
}
