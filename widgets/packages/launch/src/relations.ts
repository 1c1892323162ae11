// Who released whom: which arrival ended which phase, and which waits that ended.

import { actionMoments } from "./arrivals";
import type { Launch } from "./data";

/** Of `actions.passed`, a test that found the phase not over: sglab/events/tables.py. */
export const FAILED = -2;

export interface Released {
  /** The waiting event. */
  event: number;
  /** The row of `waits`; undefined where it found the phase complete. */
  wait: number | undefined;
}

export class Relations {
  #phasesOfEvent = new Map<number, number[]>();
  #releasedBy: Released[][];
  #actionOfEvent = new Map<number, number>();
  #waitOfEvent = new Map<number, number>();
  #operationsOfEvent = new Map<number, number>();
  #actionsOn: number[][];
  #told = new Map<number, number[]>();
  /** When each row of `actions` took place, as a place among positions: see arrivals.ts. */
  readonly moments: Float64Array;
  #phasesOf: number[][];

  constructor(private launch: Launch) {
    const { phases, actions, waits, operations, meta } = launch;
    this.#actionsOn = meta.barriers.map(() => []);
    this.#phasesOf = meta.barriers.map(() => []);
    for (let i = 0; i < actions.size; i++) this.#actionsOn[actions.barrier[i] as number]?.push(i);
    for (let i = 0; i < phases.size; i++) this.#phasesOf[phases.barrier[i] as number]?.push(i);
    this.moments = actionMoments(launch);
    for (const mine of this.#actionsOn)
      mine.sort((a, b) => (this.moments[a] as number) - (this.moments[b] as number));
    this.#releasedBy = Array.from({ length: phases.size }, () => []);
    for (let i = 0; i < phases.size; i++) push(this.#phasesOfEvent, phases.event[i] as number, i);
    for (let i = 0; i < waits.size; i++) {
      const event = waits.event[i] as number;
      this.#waitOfEvent.set(event, i);
      this.#releasedBy[waits.phase[i] as number]?.push({ event, wait: i });
    }
    for (let i = 0; i < actions.size; i++) {
      const event = actions.event[i] as number;
      this.#actionOfEvent.set(event, i);
      if (!this.#waitOfEvent.has(event))
        this.#releasedBy[actions.passed[i] as number]?.push({ event, wait: undefined });
    }
    for (let i = 0; i < operations.size; i++) {
      this.#operationsOfEvent.set(operations.event[i] as number, i);
      this.#operationsOfEvent.set(operations.last[i] as number, i);
    }
  }

  /** The phases that an event's arrival, or that of the operation it issued, ended. */
  phasesEndedBy(event: number): readonly number[] {
    return this.#phasesOfEvent.get(event) ?? [];
  }

  /** Who continued when a phase ended, those that had waited first. */
  releasedBy(phase: number): readonly Released[] {
    return this.#releasedBy[phase] ?? [];
  }

  /** Rows of `actions` on a barrier, by their moments. */
  actionsOn(barrier: number): readonly number[] {
    return this.#actionsOn[barrier] ?? [];
  }

  /** The same without the tests that one warp makes again because the one before failed: a loop makes thousands. */
  toldActionsOn(barrier: number): readonly number[] {
    const known = this.#told.get(barrier);
    if (known) return known;
    const { actions, events, places } = this.launch;
    const inVain = new Set<number>(); // rows whose last action here was a test that failed
    const told = this.actionsOn(barrier).filter((action) => {
      const row = events.row[places.indexOf(actions.event[action] as number)] as number;
      const fails = actions.passed[action] === FAILED;
      const again = fails && inVain.has(row);
      if (fails) inVain.add(row);
      else inVain.delete(row);
      return !again;
    });
    this.#told.set(barrier, told);
    return told;
  }

  /** Rows of `phases` of a barrier, in order. */
  phasesOf(barrier: number): readonly number[] {
    return this.#phasesOf[barrier] ?? [];
  }

  /** Rows of the table whose warps arrive at a barrier or wait for it, ever. */
  rowsAt(barrier: number): Set<number> {
    const { actions, phases, events, places, meta } = this.launch;
    const making = new Set(["init", "inval"].map((name) => meta.actions.indexOf(name)));
    const acting = this.actionsOn(barrier).filter((row) => !making.has(actions.action[row] as number));
    const all = [
      ...acting.map((row) => actions.event[row] as number),
      ...this.phasesOf(barrier).map((row) => phases.event[row] as number),
    ];
    return new Set(all.flatMap((event) => events.row[places.indexOf(event)] ?? []));
  }

  /** What an event did to a barrier: a row of `actions`. */
  actionOf(event: number): number | undefined {
    return this.#actionOfEvent.get(event);
  }

  /** The wait that an event ended: a row of `waits`. */
  waitOf(event: number): number | undefined {
    return this.#waitOfEvent.get(event);
  }

  /** The operation that an event issued: a row of `operations`. */
  operationOf(event: number): number | undefined {
    return this.#operationsOfEvent.get(event);
  }

  /** The event that let an event proceed; undefined where it did not depend on another. */
  causeOf(event: number): number | undefined {
    const { waits, actions, phases } = this.launch;
    const wait = this.waitOf(event);
    if (wait !== undefined) {
      const cause = waits.cause[wait] as number;
      return cause >= 0 ? cause : undefined;
    }
    const action = this.actionOf(event);
    const phase = action === undefined ? -1 : (actions.passed[action] as number);
    return phase >= 0 ? phases.event[phase] : undefined;
  }
}

function push(map: Map<number, number[]>, key: number, value: number): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}
