// Which span is at a place of a timeline, and where a known span is. Pure.

import { type Layout, rowAtY } from "./layout";
import type { Hit, TimelineModel } from "./model";
import { NO_SPANS, spanAt } from "./spans";

/** The span at a place of the axis and a height of the canvas; what misses a bar by `reach` still finds it. */
export function hitAt(
  model: TimelineModel,
  layout: Layout,
  unit: number,
  y: number,
  reach: number,
): Hit | undefined {
  const row = rowAtY(layout, y);
  const box = layout.rows[row];
  const shown = model.rows[row];
  if (!box || !shown) return undefined;
  const lane = Math.min(shown.lanes.length - 1, Math.floor(((y - box.y) / box.height) * shown.lanes.length));
  const bars = shown.lanes[lane] ?? NO_SPANS;
  const waits = shown.waits ?? NO_SPANS;
  for (const [layer, spans, within] of [
    ["bar", bars, 0],
    ["wait", waits, 0],
    ["bar", bars, reach],
  ] as const) {
    const index = spanAt(spans, unit, within);
    if (index >= 0) return { row, layer, lane, index, id: spans.id[index] as number };
  }
  return undefined;
}

/** The bar of a row with this id. */
export function barWithId({ rows }: TimelineModel, row: number, id: number): Hit | undefined {
  for (const [lane, spans] of (rows[row]?.lanes ?? []).entries()) {
    const index = spans.id.indexOf(id);
    if (index >= 0) return { row, layer: "bar", lane, index, id };
  }
  return undefined;
}

/** The wait of a row with this id. */
export function waitWithId({ rows }: TimelineModel, row: number, id: number): Hit | undefined {
  const index = rows[row]?.waits?.id.indexOf(id) ?? -1;
  return index < 0 ? undefined : { row, layer: "wait", lane: 0, index, id };
}

/** Where a span is on the axis. */
export function spanOf({ rows }: TimelineModel, hit: Hit): { start: number; end: number } | undefined {
  const row = rows[hit.row];
  const spans = hit.layer === "wait" ? row?.waits : row?.lanes[hit.lane];
  const start = spans?.start[hit.index];
  const end = spans?.end[hit.index];
  return start === undefined || end === undefined ? undefined : { start, end };
}
