// The stretch of a timeline that is on screen.

export interface Range {
  readonly start: number;
  readonly end: number;
}

export function span({ start, end }: Range): number {
  return end - start;
}

/** Within [0, length], at least `least` wide. */
export function clampRange({ start, end }: Range, length: number, least: number): Range {
  const size = Math.min(length, Math.max(least, end - start));
  const middle = (start + end) / 2;
  const from = Math.max(0, Math.min(length - size, middle - size / 2));
  return { start: from, end: from + size };
}

/** `factor` above 1 shows more; `at` stays where it is on screen. */
export function zoomed({ start, end }: Range, factor: number, at: number): Range {
  return { start: at - (at - start) * factor, end: at + (end - at) * factor };
}

export function panned({ start, end }: Range, by: number): Range {
  return { start: start + by, end: end + by };
}

/** The same width, moved as little as needed to show `x`, a tenth inside. */
export function showing(range: Range, x: number): Range {
  const margin = span(range) / 10;
  const rounding = span(range) * 1e-9; // a range's end is not quite itself any more once it has been clamped
  if (x < range.start - rounding) return panned(range, x - margin - range.start);
  if (x > range.end + rounding) return panned(range, x + margin - range.end);
  return range;
}

const LEAST_FRAME = 5; // px

/** A range in a strip of the whole axis; too little of it for a frame around it is marked otherwise. */
export function windowIn(
  range: Range,
  length: number,
  width: number,
): { from: number; to: number; framed: boolean } {
  const [from, to] = [(range.start / length) * width, (range.end / length) * width];
  return { from, to, framed: span(range) < length && to - from >= LEAST_FRAME };
}

/** Round steps, `least` or more apart. */
export function tickStep(least: number): number {
  const unit = 10 ** Math.floor(Math.log10(Math.max(least, 1e-9)));
  return ([1, 2, 5, 10].find((factor) => factor * unit >= least) ?? 10) * unit;
}

export function ticks(range: Range, least: number): number[] {
  const step = tickStep(least);
  const made: number[] = [];
  for (let at = Math.ceil(range.start / step); at * step <= range.end; at++) made.push(at * step);
  return made;
}
