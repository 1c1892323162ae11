// What bytes hold, as the instructions say that write them and compute with them. Pure.

import type { ElementSpan } from "./protocol";

/** Bytes that hold the same; "" where no instruction says what. */
export interface Run {
  start: number;
  end: number;
  element: string;
}

/** What a span holds after `moment` moments. */
function elementOf({ phases }: ElementSpan, moment: number): string {
  return phases.findLast(([from]) => from < Math.max(1, moment))?.[1] ?? "";
}

/** What [start, end) holds after `moment` moments, in order; what nobody accesses goes with what is around it. */
export function runsIn(spans: readonly ElementSpan[], moment: number, start: number, end: number): Run[] {
  const runs: Run[] = [];
  for (const span of spans) {
    if (span.end <= start || span.start >= end) continue;
    const element = elementOf(span, moment);
    const last = runs.at(-1);
    if (last?.element === element) last.end = Math.min(span.end, end);
    else runs.push({ start: Math.max(span.start, start), end: Math.min(span.end, end), element });
  }
  return runs;
}

/** "f16", or "" where nothing is said at an address. */
export function elementAtAddress(runs: readonly Run[], address: number): string {
  return runs.find(({ start, end }) => address < end && address + 16 > start)?.element ?? "";
}

/** The one type of all runs; undefined where they are of several, or of none that is known. */
export function onlyElement(runs: readonly Run[]): string | undefined {
  const [first] = runs;
  return first?.element && runs.every(({ element }) => element === first.element) ? first.element : undefined;
}

/** The types that occur, in the order of their addresses. */
export function elementsOf(runs: readonly Run[]): string[] {
  return [...new Set(runs.map(({ element }) => element))];
}
