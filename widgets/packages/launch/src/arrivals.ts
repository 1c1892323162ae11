// When what was done to a barrier took place. A warp that arrives and waits in one instruction (bar.sync) is logged where
// it went on; it arrived where its wait began.

import type { Launch } from "./data";

/** A wait since position p began before the event at p, and after what the event before it did. */
const BEFORE = 0.25;

/** For every row of `actions` its place among positions: the event itself, or just before where an arrival's wait began. */
export function actionMoments({ meta, actions, waits }: Launch): Float64Array {
  const arrive = meta.actions.indexOf("arrive");
  const since = new Map<number, number>();
  for (let i = 0; i < waits.size; i++)
    if ((waits.barrier[i] as number) >= 0) since.set(waits.event[i] as number, waits.since[i] as number);
  return Float64Array.from({ length: actions.size }, (_, i) => {
    const event = actions.event[i] as number;
    const begun = actions.action[i] === arrive ? since.get(event) : undefined;
    return begun === undefined ? event : begun - BEFORE;
  });
}

/** The position that a clock knows of such a moment. */
export function positionOf(moment: number): number {
  return Math.ceil(moment);
}
