// What is drawn of one CTA's tensor memory, and where its cells are on the canvas.

import type { Theme } from "@sglab/core";
import type { Picture, Ranges } from "./cells";
import type { Region } from "./data";
import type { Mode } from "./looks";
import type { Allocation, Tile } from "./protocol";
import type { Kind } from "./reading";
import type { Viewport } from "./viewport";
import type { Facts } from "./words";

export interface Scene {
  facts: Facts;
  theme: Theme;
  rank: number;
  mode: Mode;
  /** How its cells are read: numbers in `kinds`. */
  read: Uint8Array;
  kinds: readonly Kind[];
  ranges: Ranges;
  regions: readonly Region[];
  allocations: readonly Allocation[];
  written: Uint8Array;
  picture: Picture | undefined;
  /** The words of a column's 128 lanes, once they have arrived. */
  words: (column: number) => ArrayLike<number> | undefined;
  viewport: Viewport;
  /** What just happened touches these: [lane, lanes, column, columns] */
  touched: readonly number[][];
  selected: { lane: number; column: number } | undefined;
  /** The quarter of the lanes that the selected warp may access. */
  quarter: number | undefined;
  cursor: { lane: number; column: number } | undefined;
  selectedTile: Tile | undefined;
}

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** The box of some lanes and columns. */
export type BoxOf = (lane: number, lanes: number, column: number, columns: number) => Box;
