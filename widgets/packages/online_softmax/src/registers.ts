// What the row's registers hold at a moment within a tile: before it, after the rescale, after the sum.

import type { Numbers } from "@sglab/protocol";
import type { Recorded, State } from "./data";
import type { FormulaName } from "./formulas";
import { type Moment, PHASES } from "./steps";

export interface Registers {
  split: number;
  step: number;
  /** How many of the four operations of this tile are done: 1 to 4. */
  done: number;
  before: { top: number; total: number };
  after: State;
  top: number;
  total: number;
  o: Numbers;
}

export function registersAt(recorded: Recorded, formula: FormulaName, moment: Moment): Registers | undefined {
  const last = moment.kind === "partial" ? recorded.steps[moment.split]?.last : undefined;
  if (last !== undefined) return during(recorded, formula, last, PHASES.length);
  if (moment.kind !== "tile") return undefined;
  return during(recorded, formula, moment.step, PHASES.indexOf(moment.phase) + 1);
}

function during(recorded: Recorded, formula: FormulaName, step: number, done: number): Registers {
  const { split } = recorded.tiles[step] as Recorded["tiles"][number];
  const first = recorded.steps[split]?.first === step;
  const before = first
    ? { top: Number.NEGATIVE_INFINITY, total: formula === "d_starts_at_1" ? 1 : 0 }
    : recorded.state(formula, step - 1);
  const after = recorded.state(formula, step);
  const old = first ? new Float32Array(recorded.vDim) : recorded.accumulator(formula, step - 1);
  let [total, o] = [before.total, old];
  if (done >= 3) {
    total = Math.fround(total * after.rescale);
    o = old.map((value) => value * after.rescale) as Numbers;
  }
  if (done >= 4) [total, o] = [after.total, recorded.accumulator(formula, step)];
  return { split, step, done, before, after, top: done >= 2 ? after.top : before.top, total, o };
}

/** How many tiles have been summed when `moment` has come. */
export function tilesDone(recorded: Recorded, moment: Moment): number {
  if (moment.kind === "start") return 0;
  if (moment.kind === "tile") return moment.step + (moment.phase === "sum" ? 1 : 0);
  if (moment.kind === "merge") return recorded.tiles.length;
  return recorded.tiles.filter((tile) => tile.split <= moment.split).length;
}

/** How many tiles' scores have arrived. */
export function tilesSeen(recorded: Recorded, moment: Moment): number {
  return moment.kind === "tile" ? moment.step + 1 : tilesDone(recorded, moment);
}
