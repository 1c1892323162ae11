// What a frame of a timeline is drawn from.

import type { Theme } from "../theme";
import type { Layout } from "./layout";
import type { Hit, TimelineModel } from "./model";
import type { Pyramid } from "./pyramid";
import { type Range, span } from "./range";

export interface Scene {
  model: TimelineModel;
  layout: Layout;
  /** By row and lane. */
  pyramids: Pyramid[][];
  range: Range;
  cursor: number;
  selected: Hit | undefined;
  /** Outlined as well. */
  marked: readonly Hit[];
  /** Rows to highlight; the others are dimmed. Empty: all the same. */
  stressed: ReadonlySet<number>;
  width: number;
  theme: Theme;
}

/** Opacity of the stretch where a row's subject existed. */
export const ALIVE = 0.2;
/** Opacity of what is not stressed. */
export const DIMMED = 0.4;

export function xOf({ range, width }: Pick<Scene, "range" | "width">, at: number): number {
  return ((at - range.start) / span(range)) * width;
}
