// Neighbouring cells that one label speaks of.

import type { Tile } from "./model";

/** Their first and last column on this side. */
export interface Reach {
  first: number;
  last: number;
}

/** One row of a side: which element is in a column, and what it says. */
export interface Line {
  at: (column: number) => number | undefined;
  labels: (element: number) => readonly string[];
  columns: number;
}

/** What is said of all cells of a reach, the longest first. */
export function labelsOf({ first, last }: Reach, { at, labels }: Line, smem: boolean): readonly string[] {
  const [one, other] = [at(first), at(last)];
  if (one === undefined || other === undefined) return [];
  return smem || labels(one)[0] === labels(other)[0] ? labels(one) : labels(one).slice(-1);
}

/** In shared memory what a lane takes in one access, elsewhere what one lane holds and the same is said of. */
export function reachOf(tile: Tile, i: number, column: number, { at, labels, columns }: Line): Reach {
  const reach = { first: column, last: column };
  const smem = tile.shown.space === "smem";
  const same = (other: number | undefined) =>
    other !== undefined &&
    tile.lane[other] === tile.lane[i] &&
    (smem ? tile.group[other] === tile.group[i] : labels(other).at(-1) === labels(i).at(-1));
  while (reach.first > 0 && same(at(reach.first - 1))) reach.first -= 1;
  while (reach.last < columns - 1 && same(at(reach.last + 1))) reach.last += 1;
  return reach;
}
