// The way of a line from a cell of one grid to a cell of another: between the cells, so that it crosses no number.

import type { Rect } from "@sglab/core";

const HOOK = 5; // px into a cell: whose line it is

/** `grid`: where `from` lies, `other`: where `to` lies; below it, or beside. */
export function pathBetween(from: Rect, to: Rect, grid: Rect, other: Rect): string {
  if (other.y >= grid.y + grid.height) {
    const [top, bottom] = [grid.y + grid.height, other.y];
    const bend = (top + bottom) / 2;
    return (
      `M${from.x + HOOK},${from.y + from.height - HOOK} H${from.x} V${top} ` +
      `C${from.x},${bend} ${to.x},${bend} ${to.x},${bottom} V${to.y + HOOK} h${HOOK}`
    );
  }
  const [left, right] = [grid.x + grid.width, other.x];
  const [start, bend] = [from.y + from.height, (left + right) / 2];
  return (
    `M${from.x + HOOK},${start - HOOK} V${start} H${left} ` +
    `C${bend},${start} ${bend},${to.y} ${right},${to.y} H${to.x + HOOK} v${HOOK}`
  );
}
