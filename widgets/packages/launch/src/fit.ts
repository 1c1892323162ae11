// The stretch of the axis where a cluster runs: it may run late or briefly, beside others of its launch.

import type { Launch } from "./data";

const MARGIN = 0.01; // of what is fitted, on either side
const WORTH = 0.9; // of the axis: where more than that is taken, nothing is cut off

/** Undefined where cutting the rest off would leave hardly more room. */
export function fitOf({ events, operations, clock }: Launch): { start: number; end: number } | undefined {
  let [start, end] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  const take = ([from, to]: readonly [number, number]) => {
    start = Math.min(start, from);
    end = Math.max(end, to);
  };
  for (let i = 0; i < events.size; i++) take(clock.bar(i));
  for (let i = 0; i < operations.size; i++) take(clock.operation(i));
  if (!(start < end)) return undefined;
  const room = MARGIN * (end - start);
  const found = { start: Math.max(0, start - room), end: Math.min(clock.length, end + room) };
  return found.end - found.start < WORTH * clock.length ? found : undefined;
}
