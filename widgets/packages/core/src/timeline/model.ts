// What a timeline shows.

import type { Look } from "../colors";
import type { Range } from "./range";
import type { Spans } from "./spans";

export interface TimelineRow {
  label: string;
  /** For hover and for screen readers. */
  title: string;
  /** Rows of one group are together under its heading. */
  group: string;
  /** The swatch beside the label, one of the timeline's looks. */
  look?: number;
  /** Of the bars, which take the row's height in equal parts. */
  lanes: Spans[];
  /** Drawn lightly behind the bars: when the row's subject existed. */
  alive?: Spans;
  /** Drawn as thin dashed lines. */
  waits?: Spans;
  /** Step functions from 0 to 1 over the axis, as an area or a line. */
  profiles?: Profile[];
  /** Shown beside the label. */
  extra?: HTMLElement;
  height: number;
  /** Whether the height may be another one, within the model's `heights`. */
  flexible?: boolean;
}

/** y[i] holds from x[i] to x[i + 1]. */
export interface Profile {
  readonly x: Float64Array;
  readonly y: Float32Array;
  readonly look: number;
  readonly line?: boolean;
}

/** From what released to who had waited: parallel columns, ascending by `toX`. */
export interface Links {
  readonly size: number;
  readonly fromRow: Int32Array;
  readonly fromX: Float64Array;
  readonly toRow: Int32Array;
  readonly toX: Float64Array;
}

export interface TimelineModel {
  length: number;
  /** The stretch where something happens, which is shown first and as the whole; else all of the axis. */
  fit?: Range;
  rows: TimelineRow[];
  looks: Look[];
  links: Links;
  /** px: the least and the most of a flexible row. */
  heights?: { least: number; most: number };
  /** The least that a view shows, in units of the axis. */
  least: number;
  /** A position on the axis as text; `step` says how finely. */
  format: (x: number, step: number) => string;
  /** What the axis counts. */
  axis: string;
  /** Shown above the labels. */
  heading?: HTMLElement;
  /** Short text inside a bar that has room. */
  barLabel: (row: number, id: number) => string;
}

export type Layer = "bar" | "wait";

/** A span under the pointer or selected. */
export interface Hit {
  row: number;
  layer: Layer;
  lane: number;
  index: number;
  id: number;
}
