// Barriers at any step, from the recorded changes: a binary search per barrier.

import { countUpTo } from "../core";
import type { Launch } from "./data";
import { type BarrierSteps, barrierSteps, endedBy } from "./progress";

export interface BarrierState {
  /** Phases that have ended. */
  ended: number;
  /** Of the current phase. */
  parity: number;
  pending: number;
  expected: number;
  tx: number;
  /** Nothing is known yet: it is not initialised, or nobody has come to it. */
  fresh: boolean;
  waiting: Waiter[];
}

export interface Waiter {
  row: number;
  /** The position at which it began to wait, and the event that ends it. */
  since: number;
  event: number;
}

/** A barrier's changes: state i holds from step steps[i] on. */
export interface Changes {
  steps: Float64Array;
  rows: Int32Array;
}

export class BarrierStates {
  readonly changes: Changes[];
  readonly progress: BarrierSteps[];
  #waits: number[][];
  #waitEnds: Int32Array[];

  constructor(private launch: Launch) {
    const { meta, states, waits, places } = launch;
    this.progress = barrierSteps(launch);
    const rows: number[][] = meta.barriers.map(() => []);
    for (let i = 0; i < states.size; i++) rows[states.barrier[i] as number]?.push(i);
    this.changes = rows.map((mine) => ({
      steps: Float64Array.from(mine, (i) => places.stepBehind(states.position[i] as number)),
      rows: Int32Array.from(mine),
    }));
    this.#waits = meta.barriers.map(() => []);
    for (let i = 0; i < waits.size; i++) this.#waits[waits.barrier[i] as number]?.push(i);
    for (const mine of this.#waits)
      mine.sort((a, b) => (waits.event[a] as number) - (waits.event[b] as number));
    this.#waitEnds = this.#waits.map((mine) => Int32Array.from(mine, (i) => waits.event[i] as number));
  }

  at(barrier: number, step: number): BarrierState {
    const { states, meta } = this.launch;
    const { steps, rows } = this.changes[barrier] as Changes;
    const row = rows[countUpTo(steps, step) - 1];
    const ended = endedBy(this.progress[barrier] as BarrierSteps, step);
    const waiting = this.waitingAt(barrier, step);
    if (row === undefined) return { ended, parity: 0, pending: 0, expected: 0, tx: 0, fresh: true, waiting };
    const expected = states.expected[row] as number;
    return {
      ended,
      parity: states.parity[row] as number,
      pending: states.pending[row] as number,
      expected,
      tx: states.tx[row] as number,
      fresh: meta.barriers[barrier]?.kind !== "mbarrier" && expected === 0,
      waiting,
    };
  }

  /** Who waits, those that came first before the others. */
  waitingAt(barrier: number, step: number): Waiter[] {
    if (step === 0) return [];
    const { waits, places, meta } = this.launch;
    const now = places.positionAt(step);
    const rows = this.#waits[barrier] ?? [];
    const found: Waiter[] = [];
    // By the event that ends them: a warp that waits now is among the next few.
    const first = countUpTo(this.#waitEnds[barrier] as Int32Array, now - 1);
    const last = Math.min(rows.length, first + 4 * meta.ctas.length * meta.warps);
    for (let k = first; k < last; k++) {
      const i = rows[k] as number;
      const since = waits.since[i] as number;
      if (since <= now) found.push({ row: waits.row[i] as number, since, event: waits.event[i] as number });
    }
    return found.sort((a, b) => a.since - b.since);
  }

  /** Rows of the log's waits at this barrier. */
  waitsOf(barrier: number): readonly number[] {
    return this.#waits[barrier] ?? [];
  }

  /** Whether anybody has arrived or waited, ever. */
  used(barrier: number): boolean {
    const { ends, arrivals } = this.progress[barrier] as BarrierSteps;
    return ends.length > 0 || arrivals.length > 0 || this.waitsOf(barrier).length > 0;
  }
}
