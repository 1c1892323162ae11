// What is on one line of a timeline: spans in ascending order that do not overlap, as columns.

export interface Spans {
  readonly size: number;
  readonly start: Float64Array;
  readonly end: Float64Array;
  /** Which of the timeline's looks. */
  readonly look: Uint8Array;
  /** What the caller calls it. */
  readonly id: Uint32Array;
}

export const NO_SPANS: Spans = {
  size: 0,
  start: new Float64Array(0),
  end: new Float64Array(0),
  look: new Uint8Array(0),
  id: new Uint32Array(0),
};

/** The first span that ends after `x`; `size` where none does. */
export function firstEndingAfter({ end, size }: Spans, x: number): number {
  return firstAbove(end, size, x);
}

/** The first span that starts at or after `x`; `size` where none does. */
export function firstStartingFrom({ start, size }: Spans, x: number): number {
  let low = 0;
  let high = size;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((start[middle] as number) < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

function firstAbove(ascending: Float64Array, size: number, x: number): number {
  let low = 0;
  let high = size;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ascending[middle] as number) <= x) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The span at `x`, or the nearest one no further than `reach`; -1 where there is none. */
export function spanAt(spans: Spans, x: number, reach: number): number {
  const after = firstEndingAfter(spans, x);
  const ahead = after < spans.size ? (spans.start[after] as number) - x : Number.POSITIVE_INFINITY;
  if (ahead <= 0) return after;
  const behind = after > 0 ? x - (spans.end[after - 1] as number) : Number.POSITIVE_INFINITY;
  if (Math.min(ahead, behind) > reach) return -1;
  return ahead <= behind ? after : after - 1;
}

/**
 * Spans that may overlap, given in order of their start, put on as few lines as they need; from `most` lines on, on the one
 * that has been free for longest.
 */
export function packLanes(spans: Spans, most: number): Spans[] {
  const free: number[] = [];
  const members: number[][] = [];
  for (let i = 0; i < spans.size; i++) {
    const start = spans.start[i] as number;
    let lane = free.findIndex((since) => since <= start);
    if (lane < 0) lane = free.length < most ? free.length : free.indexOf(Math.min(...free));
    free[lane] = Math.max(free[lane] ?? 0, spans.end[i] as number);
    members[lane] ??= [];
    (members[lane] as number[]).push(i);
  }
  return members.map((lane) => pick(spans, lane));
}

/** Some spans of many; one that begins before its predecessor has ended begins when that one ends. */
export function pick(spans: Spans, indices: ArrayLike<number>): Spans {
  const size = indices.length;
  const made = {
    size,
    start: new Float64Array(size),
    end: new Float64Array(size),
    look: new Uint8Array(size),
    id: new Uint32Array(size),
  };
  let previous = Number.NEGATIVE_INFINITY;
  for (let k = 0; k < size; k++) {
    const i = indices[k] as number;
    made.start[k] = Math.max(previous, spans.start[i] as number);
    made.end[k] = Math.max(made.start[k] as number, spans.end[i] as number);
    made.look[k] = spans.look[i] as number;
    made.id[k] = spans.id[i] as number;
    previous = made.end[k] as number;
  }
  return made;
}
