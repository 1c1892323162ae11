// Per barrier, the steps at which something happened to it, ascending: states at any step are then binary searches.

import { countUpTo } from "@sglab/core";
import type { Launch, PhaseTable } from "./data";

export interface BarrierSteps {
  /** A phase ended. */
  ends: Int32Array;
  /** A warp arrived, or issued what will. */
  arrivals: Int32Array;
  /** A warp's wait was over. */
  passes: Int32Array;
}

export function barrierSteps({ meta, phases, actions, operations, places }: Launch): BarrierSteps[] {
  const ends: number[][] = meta.barriers.map(() => []);
  const arrivals: number[][] = meta.barriers.map(() => []);
  const passes: number[][] = meta.barriers.map(() => []);
  const arrive = new Set(["arrive", "expect_tx"].map((name) => meta.actions.indexOf(name)));
  for (let i = 0; i < phases.size; i++)
    ends[phases.barrier[i] as number]?.push(places.stepBehind(phases.position[i] as number));
  for (let i = 0; i < actions.size; i++) {
    const barrier = actions.barrier[i] as number;
    const step = places.indexOf(actions.event[i] as number) + 1;
    if (arrive.has(actions.action[i] as number)) arrivals[barrier]?.push(step);
    if ((actions.passed[i] as number) >= 0) passes[barrier]?.push(step);
  }
  for (let i = 0; i < operations.size; i++)
    arrivals[operations.barrier[i] as number]?.push(places.indexOf(operations.event[i] as number) + 1);
  const sorted = (steps: number[] | undefined) => Int32Array.from(steps ?? []).sort();
  return meta.barriers.map((_, i) => ({
    ends: sorted(ends[i]),
    arrivals: sorted(arrivals[i]),
    passes: sorted(passes[i]),
  }));
}

/** Phases that have ended by a step. */
export function endedBy({ ends }: BarrierSteps, step: number): number {
  return countUpTo(ends, step);
}

/**
 * Whether a phase ends before the event at its position: an operation's signal ended it, or in modelled time an arrival that
 * took a while to be known. Else that event is the arrival, and the phase is over behind it.
 */
export function endsByItself({ position, event, asynchronous }: PhaseTable, phase: number): boolean {
  return !!asynchronous[phase] || position[phase] !== event[phase];
}

/** The last of `steps` that is not after `step`; 0: none. */
export function lastUpTo(steps: Int32Array, step: number): number {
  return steps[countUpTo(steps, step) - 1] ?? 0;
}
