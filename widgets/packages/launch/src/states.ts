// Barriers at any step, from the recorded changes: a binary search per barrier.

import { countUpTo } from "@sglab/core";
import { actionMoments } from "./arrivals";
import type { Launch } from "./data";
import { endlessWaits } from "./endless";
import { type BarrierSteps, barrierSteps, endedBy, endsByItself } from "./progress";

export interface BarrierState {
  /** Phases that have ended. */
  ended: number;
  /** Of the current phase. */
  parity: number;
  pending: number;
  expected: number;
  tx: number;
  /** Nothing is known yet: it is not initialised, or no warp has reached it. */
  fresh: boolean;
  waiting: Waiter[];
  /** Whose phase has ended, but who have not gone on yet: other warps ran. */
  released: Waiter[];
}

export interface Waiter {
  row: number;
  /** The position at which it began to wait, and the event that ends it. */
  since: number;
  event: number;
  /** The row of `waits`. */
  wait: number;
}

/** One arrival at a barrier, or at its end what was issued before. */
export interface Arrival {
  event: number;
  /** When, as a place among positions: see arrivals.ts. */
  moment: number;
  /** Threads that arrive. */
  count: number;
  /** It arrives when what the event issued is complete. */
  asynchronous: boolean;
}

export interface PhaseArrivals {
  come: Arrival[];
  /** Until the phase ends, as far as it was recorded. */
  toCome: Arrival[];
  /** The recording holds the end of this phase. */
  ends: boolean;
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
  #phases: number[][];
  #arrivals: Arrival[][];
  #waitEnds: Int32Array[];
  #unended: Waiter[][];

  constructor(private launch: Launch) {
    const { meta, states, waits, places, phases } = launch;
    this.#phases = meta.barriers.map(() => []);
    for (let i = 0; i < phases.size; i++) this.#phases[phases.barrier[i] as number]?.push(i);
    this.#arrivals = arrivalsOf(launch);
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
    this.#unended = meta.barriers.map(() => []);
    for (const { barrier, ...waiter } of endlessWaits(launch)) this.#unended[barrier]?.push(waiter);
  }

  at(barrier: number, step: number): BarrierState {
    const { states, meta } = this.launch;
    const { steps, rows } = this.changes[barrier] as Changes;
    const row = rows[countUpTo(steps, step) - 1];
    const ended = endedBy(this.progress[barrier] as BarrierSteps, step);
    const [waiting, released] = this.#waitersAt(barrier, step);
    const who = { waiting, released };
    if (row === undefined) return { ended, parity: 0, pending: 0, expected: 0, tx: 0, fresh: true, ...who };
    const expected = states.expected[row] as number;
    return {
      ended,
      parity: states.parity[row] as number,
      pending: states.pending[row] as number,
      expected,
      tx: states.tx[row] as number,
      fresh: meta.barriers[barrier]?.kind !== "mbarrier" && expected === 0,
      ...who,
    };
  }

  /** Who waits, those that came first before the others. */
  waitingAt(barrier: number, step: number): Waiter[] {
    return this.#waitersAt(barrier, step)[0];
  }

  /** Who waits, and who was released and has not gone on. */
  #waitersAt(barrier: number, step: number): [Waiter[], Waiter[]] {
    if (step === 0) return [[], []];
    const { waits, places, phases, meta, clock } = this.launch;
    const now = places.positionAt(step);
    const x = clock.x(step);
    const rows = this.#waits[barrier] ?? [];
    const unended = this.#unended[barrier] ?? [];
    const waiting: Waiter[] = unended.filter(({ wait }) => clock.wait(wait)[0] <= x);
    const released: Waiter[] = [];
    // By the event that ends them: a warp that waits now is among the next few.
    const first = countUpTo(this.#waitEnds[barrier] as Int32Array, now - 1);
    const last = Math.min(rows.length, first + 4 * meta.ctas.length * meta.warps);
    for (let k = first; k < last; k++) {
      const i = rows[k] as number;
      const since = waits.since[i] as number;
      if (clock.wait(i)[0] > x || unended.some(({ wait, row }) => row === waits.row[i] && i >= wait))
        continue;
      const end = phases.position[waits.phase[i] as number];
      const over = end !== undefined && places.stepBehind(end) <= step;
      (over ? released : waiting).push({
        row: waits.row[i] as number,
        since,
        event: waits.event[i] as number,
        wait: i,
      });
    }
    for (const found of [waiting, released]) found.sort((a, b) => a.since - b.since);
    return [waiting, released];
  }

  /** Who arrives in the phase that contains a step: before it, and from it on. */
  arrivalsAt(barrier: number, step: number): PhaseArrivals {
    const { phases, places } = this.launch;
    const mine = this.#phases[barrier] ?? [];
    const number = endedBy(this.progress[barrier] as BarrierSteps, step);
    const [before, end] = [mine[number - 1], mine[number]];
    const found: Arrival[] = [];
    for (const arrival of this.#arrivals[barrier] ?? [])
      if (
        this.#endsBefore(before, arrival.moment) &&
        (end === undefined || !this.#endsBefore(end, arrival.moment))
      )
        found.push(arrival);
    const now = places.positionAt(step);
    const come = found.filter(({ moment }) => moment < now);
    const toCome = found.filter(({ moment }) => moment >= now);
    // what it issued ends the phase without an instruction of its own
    if (end !== undefined && phases.asynchronous[end]) {
      const event = phases.event[end] as number;
      toCome.push({ event, moment: event, count: 1, asynchronous: true });
    }
    return { come, toCome, ends: end !== undefined };
  }

  /** Whether a phase has ended at a moment; undefined: the beginning, which is always over. */
  #endsBefore(phase: number | undefined, moment: number): boolean {
    const { phases } = this.launch;
    if (phase === undefined) return true;
    const end = phases.position[phase] as number;
    return endsByItself(phases, phase) ? end <= moment : end < moment;
  }

  /** Rows of its phases, in order. */
  phasesOf(barrier: number): readonly number[] {
    return this.#phases[barrier] ?? [];
  }

  /** Rows of the log's waits at this barrier. */
  waitsOf(barrier: number): readonly number[] {
    return this.#waits[barrier] ?? [];
  }

  /** Whether any warp has ever arrived or waited. */
  used(barrier: number): boolean {
    const { ends, arrivals } = this.progress[barrier] as BarrierSteps;
    return ends.length > 0 || arrivals.length > 0 || this.waitsOf(barrier).length > 0;
  }
}

/** By barrier: the instructions that arrive at it, in order, and for how many threads. */
function arrivalsOf(launch: Launch): Arrival[][] {
  const { meta, actions, events, places } = launch;
  const found: Arrival[][] = meta.barriers.map(() => []);
  const moments = actionMoments(launch);
  const arrive = meta.actions.indexOf("arrive");
  for (let i = 0; i < actions.size; i++) {
    if (actions.action[i] !== arrive) continue;
    const event = actions.event[i] as number;
    const count = lanesIn(events.mask[places.indexOf(event)] ?? 0);
    const moment = moments[i] as number;
    found[actions.barrier[i] as number]?.push({ event, moment, count, asynchronous: false });
  }
  for (const mine of found) mine.sort((a, b) => a.moment - b.moment);
  return found;
}

function lanesIn(mask: number): number {
  let left = mask >>> 0;
  let count = 0;
  for (; left; left &= left - 1) count += 1;
  return count;
}
