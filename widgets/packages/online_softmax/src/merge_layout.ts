// Where partials and merges are in the tree: boxes of a row never overlap. Pure: no DOM, no state.

import type { Plan } from "./merge";

const GAP = 6;
const LEAF = 132;
const MERGED = 112;

/** The middle of a box and its width in pixels; rows count from the partials down. */
export interface Box {
  x: number;
  wide: number;
  row: number;
}

interface Place {
  /** In splits: partial i is at i. */
  column: number;
  row: number;
}

export function boxesOf(plan: Plan, leaves: number, width: number): Box[] {
  const places = placesOf(plan, leaves);
  const step = width / leaves;
  const leaf = Math.max(24, Math.min(LEAF, step - GAP));
  return places.map(({ column, row }) => {
    const wide =
      row === 0 ? leaf : Math.min(Math.max(leaf, MERGED), nearest(places, column, row) * step - GAP);
    const x = Math.max(wide / 2, Math.min(width - wide / 2, (column + 0.5) * step));
    return { x, wide, row };
  });
}

/** How far the closest other box of a row is. */
function nearest(places: Place[], column: number, row: number): number {
  const others = places.filter((place) => place.row === row && place.column !== column);
  return Math.min(...others.map((place) => Math.abs(place.column - column)), Number.POSITIVE_INFINITY);
}

/** A merge is below the middle of what it takes, or beside it where a box or another node's line is in the way. */
function placesOf(plan: Plan, leaves: number): Place[] {
  const places: Place[] = Array.from({ length: leaves }, (_, column) => ({ column, row: 0 }));
  const open = new Set(places);
  for (const taken of plan) {
    const from = taken.map((node) => places[node] as Place);
    for (const place of from) open.delete(place);
    const middle = from.reduce((sum, { column }) => sum + column, 0) / from.length;
    const place = freePlace(places, open, middle, 1 + Math.max(...from.map(({ row }) => row)), leaves);
    places.push(place);
    open.add(place);
  }
  return places;
}

function freePlace(places: Place[], open: Set<Place>, middle: number, first: number, leaves: number): Place {
  const columns = [0, 0.5, -0.5, 1, -1].map((offset) => middle + offset);
  const inside = columns.filter((column) => column >= 0 && column <= leaves - 1);
  for (let row = first; ; row++) {
    const roomy = inside.filter((column) =>
      places.every((place) => place.row !== row || Math.abs(place.column - column) >= 1),
    );
    const clear = roomy.find((column) =>
      [...open].every((place) => place.row > row || Math.abs(place.column - column) >= 0.5),
    );
    const column = clear ?? roomy[0];
    if (column !== undefined) return { column, row };
  }
}
