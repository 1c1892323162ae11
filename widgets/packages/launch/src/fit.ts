// The stretch of the axis where a cluster runs: it may run late or briefly, beside others of its launch.

import type { Launch } from "./data";

const MARGIN = 0.01; // of what is fitted, on either side
const WORTH = 0.9; // of the axis: where more than that is taken, nothing is cut off

/** Of what a failed launch did, this much of what came after the last thing that changed: the rest are tests that fail. */
const IN_VAIN = 0.25;

/** Undefined where cutting the rest off would leave hardly more room. */
export function fitOf(launch: Launch): { start: number; end: number } | undefined {
  const { events, operations, clock, meta } = launch;
  let [start, end] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  const take = ([from, to]: readonly [number, number]) => {
    start = Math.min(start, from);
    end = Math.max(end, to);
  };
  for (let i = 0; i < events.size; i++) take(clock.bar(i));
  for (let i = 0; i < operations.size; i++) take(clock.operation(i));
  if (!(start < end)) return undefined;
  if (meta.error) end = Math.min(end, lastChange(launch) + IN_VAIN * (lastChange(launch) - start));
  if (!(start < end)) return undefined;
  const room = MARGIN * (end - start);
  const found = { start: Math.max(0, start - room), end: Math.min(clock.length, end + room) };
  return found.end - found.start < WORTH * clock.length ? found : undefined;
}

/** The last thing that happened to a barrier or that an operation did; the end, where nothing did. */
function lastChange({ states, operations, clock }: Launch): number {
  let last = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < states.size; i++) last = Math.max(last, clock.change(i));
  for (let i = 0; i < operations.size; i++) last = Math.max(last, clock.operation(i)[1]);
  return Number.isFinite(last) ? last : clock.length;
}
