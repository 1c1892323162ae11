// The transport over moments that are all known, while a live session has to go to them.

import { type Arrival, countUpTo, type Granularity, type Motion } from "../core";

/** The position that a motion means. */
export function targetOf(
  motion: Motion,
  from: number,
  length: number,
  granularities: readonly Granularity[],
  selected: () => ArrayLike<number> | undefined,
): number {
  switch (motion.kind) {
    case "to":
      return Math.max(0, Math.min(length, motion.position));
    case "end":
      return length;
    case "selection":
      return neighbour(selected(), from, motion.direction) ?? from;
    case "step": {
      const stops = granularities.find((each) => each.id === motion.granularity)?.stops;
      let at = from;
      for (let i = 0; i < motion.count; i++)
        at = stops
          ? (neighbour(stops, at, motion.direction) ?? (motion.direction > 0 ? length : 0))
          : at + motion.direction;
      return Math.max(0, Math.min(length, at));
    }
  }
}

function neighbour(stops: ArrayLike<number> | undefined, at: number, direction: 1 | -1): number | undefined {
  if (!stops) return undefined;
  return direction > 0 ? stops[countUpTo(stops, at)] : stops[countUpTo(stops, at - 1) - 1];
}

/** A `Track.move` that asks Python to go to a moment and shows what came before it arrives. */
export function mover(
  position: () => number,
  length: number,
  granularities: readonly Granularity[],
  selected: () => ArrayLike<number> | undefined,
  go: (moment: number) => Promise<void>,
): (motion: Motion) => Promise<Arrival> {
  return async (motion) => {
    const target = targetOf(motion, position(), length, granularities, selected);
    await go(target);
    return { position: target };
  };
}
