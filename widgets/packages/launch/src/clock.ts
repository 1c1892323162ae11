// What orders a launch's events and where they are on an axis: the emulator's issue order, or modelled time.

import { format } from "@sglab/core";
import { endlessWaits } from "./endless";
import type { Places } from "./places";
import type { LaunchMeta, LaunchTables } from "./tables";

/** Rows and indices are those of the tables that the clock belongs to; x is in units of its axis. */
export interface Clock {
  readonly timed: boolean;
  readonly length: number;
  /** The least that a view of the axis shows. */
  readonly least: number;
  readonly axis: string;
  x(step: number): number;
  stepAt(x: number): number;
  format(x: number, step: number): string;
  /** A position in words. */
  at(position: number): string;
  /** A place of the axis, and the length of a stretch of it, in words. */
  point(x: number): string;
  stretch(units: number): string;
  /** The number of an event in the launch, and moments as the shared selection counts them. */
  numberOf(index: number): number;
  momentAt(step: number): number;
  stepOf(moment: number): number;
  bar(index: number): readonly [number, number];
  wait(row: number): readonly [number, number];
  operation(row: number): readonly [number, number];
  phase(row: number): number;
  /** Where a row of `states` comes about. */
  change(row: number): number;
  /** In words: when a wait began, when a phase ended, when an operation was carried out. */
  began(wait: number): string;
  ended(phase: number): string;
  done(operation: number): string;
}

export function issueClock(tables: LaunchTables, places: Places, meta: LaunchMeta): Clock {
  const { events, waits, operations, phases, states } = tables;
  const endless = new Set(endlessWaits({ meta, waits }).map(({ wait }) => wait));
  const at = (position: number) => format.count(places.stepAt(position));
  return {
    timed: false,
    length: Math.max(1, places.size),
    least: 8,
    axis: "issue order",
    x: (step) => step,
    stepAt: (x) => Math.round(x),
    format: (x) => format.count(Math.round(x)),
    at,
    point: (x) => format.count(Math.round(x)),
    stretch: (units) => format.plural(Math.round(units), "instruction"),
    numberOf: (index) => events.at[index] as number,
    momentAt: (step) => places.positionAt(step),
    stepOf: (moment) => places.stepAt(moment),
    bar: (index) => [index, index + 1],
    wait: (row) => [
      places.stepAt(waits.since[row] as number),
      endless.has(row) ? places.size : places.stepAt(waits.event[row] as number),
    ],
    operation: (row) => {
      const start = places.stepAt(operations.event[row] as number);
      return [start, Math.max(start + 1, places.stepAt(operations.done[row] as number))];
    },
    phase: (row) => places.stepAt(phases.position[row] as number) + (phases.asynchronous[row] ? 0 : 0.5),
    change: (row) => places.stepBehind(states.position[row] as number),
    began: (wait) => at(waits.since[wait] as number),
    ended: (phase) => at(phases.position[phase] as number),
    done: (operation) => at(operations.done[operation] as number),
  };
}
