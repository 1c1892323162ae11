// Which part of the 512 × 128 cells a map shows. Pure: every change makes a new one.

import { COLUMNS, LANES } from "./data";

export interface Viewport {
  /** 0 shows everything, 1 single cells with their values. */
  zoom: number;
  /** The cell at the top left, in fractions of a cell. */
  column: number;
  lane: number;
}

export interface Size {
  width: number;
  height: number;
}

export const WHOLE: Viewport = { zoom: 0, column: 0, lane: 0 };
const LARGEST = { width: 64, height: 18 };

/** Pixels per cell: overview cells are taller than wide, large ones fit a number. */
export function scaleOf({ zoom }: Viewport, { width, height }: Size): Size {
  const fit = { width: width / COLUMNS, height: height / LANES };
  return {
    width: fit.width * (LARGEST.width / fit.width) ** zoom,
    height: fit.height * (LARGEST.height / fit.height) ** zoom,
  };
}

export function clamp(view: Viewport, size: Size): Viewport {
  const zoom = Math.max(0, Math.min(1, view.zoom));
  const scale = scaleOf({ ...view, zoom }, size);
  const most = { column: COLUMNS - size.width / scale.width, lane: LANES - size.height / scale.height };
  return {
    zoom,
    column: Math.max(0, Math.min(most.column, view.column)),
    lane: Math.max(0, Math.min(most.lane, view.lane)),
  };
}

/** Zooms by `by` and keeps the cell under (x, y) in place. */
export function zoomAt(view: Viewport, size: Size, by: number, x: number, y: number): Viewport {
  const before = scaleOf(view, size);
  const zoom = Math.max(0, Math.min(1, view.zoom + by));
  const after = scaleOf({ ...view, zoom }, size);
  return clamp(
    {
      zoom,
      column: view.column + x / before.width - x / after.width,
      lane: view.lane + y / before.height - y / after.height,
    },
    size,
  );
}

export function panBy(view: Viewport, size: Size, x: number, y: number): Viewport {
  const scale = scaleOf(view, size);
  return clamp({ ...view, column: view.column - x / scale.width, lane: view.lane - y / scale.height }, size);
}

/** Scrolls as little as needed to show a cell. */
export function reveal(view: Viewport, size: Size, lane: number, column: number): Viewport {
  const scale = scaleOf(view, size);
  const across = size.width / scale.width;
  const down = size.height / scale.height;
  const inside = (at: number, from: number, length: number) => at >= from && at + 1 <= from + length;
  return clamp(
    {
      zoom: view.zoom,
      column: inside(column, view.column, across) ? view.column : column - across / 2,
      lane: inside(lane, view.lane, down) ? view.lane : lane - down / 2,
    },
    size,
  );
}
