// The requests' lengths as bars, cut where the planner splits them. Pure: no DOM, no state.

import type { Work } from "./data";
import type { Box } from "./gantt";
import { type Groups, groupItems } from "./grouping";

export interface BarLayout {
  plot: Box;
  /** Width of one request's column, gap included. */
  column: number;
  gap: number;
  /** Tokens at the plot's top. */
  top: number;
}

const LEFT = 46;
export const RIGHT = 10;
export const LABEL_HEIGHT = 16;

export function barLayout(width: number, height: number, requests: number, top: number): BarLayout {
  const plot = {
    x: LEFT,
    y: 6,
    width: Math.max(40, width - LEFT - RIGHT),
    height: height - 6 - LABEL_HEIGHT,
  };
  const column = Math.min(150, plot.width / Math.max(1, requests));
  return { plot, column, gap: column >= 8 ? 3 : column >= 4 ? 1 : 0, top };
}

export function barOf({ plot, column, gap, top }: BarLayout, request: number, length: number): Box {
  const height = Math.max(1, (Math.min(length, top) / top) * plot.height);
  return {
    x: plot.x + request * column,
    y: plot.y + plot.height - height,
    width: Math.max(1, column - gap),
    height,
  };
}

/** Every how many requests there is room for a label that is `wide`: a power of two, so that few move in a drag. */
export function labelEvery(column: number, wide: number): number {
  return 2 ** Math.max(0, Math.ceil(Math.log2(Math.max(34, wide + 8) / column)));
}

/** The request whose column holds x, or -1. */
export function requestAt({ plot, column }: BarLayout, requests: number, x: number): number {
  const request = Math.floor((x - plot.x) / column);
  return request >= 0 && request < requests ? request : -1;
}

/** A round number of tokens with room above the longest request, so that it can be dragged longer. */
export function topFor(longest: number): number {
  const wanted = Math.max(16, longest * 1.15);
  const unit = 10 ** Math.floor(Math.log10(wanted));
  const factor = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((each) => each * unit >= wanted) ?? 10;
  return factor * unit;
}

/** The work units of each request's first head block that begin at a cut. */
export function cutsOf(work: Work | null, requests: number): Groups {
  if (!work) return groupItems(0, requests, () => -1);
  const isCut = (i: number) => work.headBlock[i] === 0 && (work.tokenStart[i] as number) > 0;
  return groupItems(work.size, requests, (i) => (isCut(i) ? (work.request[i] as number) : -1));
}
