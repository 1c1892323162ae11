// Where partials and merges are in the tree: boxes of a row never overlap. Pure: no DOM, no state.

import type { Plan } from "./merge";

/** A box's height in pixels. */
export const NODE = 56;
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

export interface Layout {
  boxes: Box[];
  /** The SVG path from a node to the merge that takes it, for rows so many pixels apart. */
  link(from: number, to: number, level: number): string;
}

export function layoutOf(plan: Plan, leaves: number, width: number): Layout {
  return isChain(plan, leaves) ? linesOf(plan, leaves, width) : treeOf(plan, leaves, width);
}

/**
 * Whether every merge takes the one before it and a partial further on: as steps of a stair they would not fit. By hand
 * a chain may also go to and fro; its links would lie across boxes.
 */
function isChain(plan: Plan, leaves: number): boolean {
  if (plan.length < 2) return false;
  const taken = [plan[0]?.[0] as number, ...plan.map(([, leaf]) => leaf as number)];
  const ways = new Set(taken.slice(1).map((leaf, k) => Math.sign(leaf - (taken[k] as number))));
  return (
    ways.size === 1 &&
    taken.every((leaf) => leaf < leaves) &&
    plan.every(([before], k) => k === 0 || before === leaves + k - 1)
  );
}

const ROOMY = 90; // px for a box with its LSE and error
const MOST_LINES = 3;

/** Partials in lines, each merge below the partial that it takes in: the chain runs along the lines. */
function linesOf(plan: Plan, leaves: number, width: number): Layout {
  const lines = Math.min(MOST_LINES, Math.ceil(leaves / Math.max(1, Math.floor(width / ROOMY))));
  const columns = Math.ceil(leaves / lines);
  const step = width / columns;
  const wide = Math.max(24, Math.min(LEAF, step - GAP));
  const below = (leaf: number, rows: number): Box => ({
    x: ((leaf % columns) + 0.5) * step,
    wide,
    row: 2 * Math.floor(leaf / columns) + rows,
  });
  const boxes = [
    ...Array.from({ length: leaves }, (_, leaf) => below(leaf, 0)),
    ...plan.map(([, leaf]) => below(leaf as number, 1)),
  ];
  const link = (from: number, to: number, level: number): string => {
    const [a, b] = [boxes[from] as Box, boxes[to] as Box];
    const half = NODE / 2;
    if (a.x === b.x) return `M${a.x},${a.row * level + NODE}V${b.row * level}`;
    if (a.row === b.row) {
      const side = Math.sign(b.x - a.x);
      return `M${a.x + (side * a.wide) / 2},${a.row * level + half}H${b.x - (side * b.wide) / 2}`;
    }
    if (from < leaves && b.row === a.row + 1) {
      const side = Math.sign(b.x - a.x); // the first partial, whose place below stays empty
      return `M${a.x},${a.row * level + NODE}V${b.row * level + half}H${b.x - (side * b.wide) / 2}`;
    }
    if (from < leaves) return curve(a, b, level);
    // to the next line, between the lines and past the partials at its beginning
    const [upper, lower] = a.row < b.row ? [a, b] : [b, a];
    const between = (upper.row + 1) * level - (level - NODE) / 2;
    return `M${upper.x},${upper.row * level + NODE}V${between}H1V${lower.row * level + half}H${lower.x - lower.wide / 2}`;
  };
  return { boxes, link };
}

function treeOf(plan: Plan, leaves: number, width: number): Layout {
  const places = placesOf(plan, leaves);
  const step = width / leaves;
  const leaf = Math.max(24, Math.min(LEAF, step - GAP));
  const boxes = places.map(({ column, row }) => {
    const wide =
      row === 0 ? leaf : Math.min(Math.max(leaf, MERGED), nearest(places, column, row) * step - GAP);
    const x = Math.max(wide / 2, Math.min(width - wide / 2, (column + 0.5) * step));
    return { x, wide, row };
  });
  return { boxes, link: (from, to, level) => curve(boxes[from] as Box, boxes[to] as Box, level) };
}

function curve(from: Box, to: Box, level: number): string {
  const [top, bottom] = [from.row * level + NODE, to.row * level];
  const middle = (top + bottom) / 2;
  return `M${from.x},${top}C${from.x},${middle} ${to.x},${middle} ${to.x},${bottom}`;
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
