// Where one can stop: four operations per tile, a partial per split, then the merges.

import { format, type Track } from "@sglab/core";
import type { Recorded, State } from "./data";
import type { FormulaName } from "./formulas";
import { leavesOf, type Plan } from "./merge";
import { type Base, lse as lseText, number, top as topText } from "./numbers";

export const PHASES = ["scores", "maximum", "rescale", "sum"] as const;

export type Moment =
  | { kind: "start" }
  | { kind: "tile"; step: number; phase: (typeof PHASES)[number] }
  | { kind: "partial"; split: number }
  | { kind: "merge"; index: number };

export interface Steps {
  track: Track;
  at(position: number): Moment;
  endOfTile(step: number): number;
  endOfSplit(split: number): number;
  endOfMerge(index: number): number;
}

export interface Shown {
  recorded: Recorded;
  formula: FormulaName;
  plan: Plan;
  base: Base;
  selectedSplit: () => number | undefined;
  /** Of the partial that is merged: the kernel's, or what the formula ends with. */
  lseOf: (split: number) => number;
}

export function stepsOf(shown: Shown): Steps {
  const { recorded, formula, plan, base } = shown;
  const moments: Moment[] = [];
  const tileEnds: number[] = [];
  const splitEnds: number[] = [];
  for (let split = 0; split < recorded.splits; split++) {
    recorded.tiles.forEach((tile, step) => {
      if (tile.split !== split) return;
      for (const phase of PHASES) moments.push({ kind: "tile", step, phase });
      tileEnds[step] = moments.length;
    });
    moments.push({ kind: "partial", split });
    splitEnds.push(moments.length);
  }
  const mergeEnds = plan.map((_, index) => moments.push({ kind: "merge", index }));
  const at = (position: number): Moment => moments[position - 1] ?? { kind: "start" };
  const coarse = [...splitEnds, ...mergeEnds];
  return {
    at,
    endOfTile: (step) => tileEnds[step] as number,
    endOfSplit: (split) => splitEnds[split] as number,
    endOfMerge: (index) => mergeEnds[index] as number,
    track: {
      length: moments.length,
      granularities: [
        { id: "operation", label: "operation" },
        { id: "tile", label: "tile", stops: [...tileEnds, ...coarse].sort((a, b) => a - b) },
        { id: "split", label: "split", stops: coarse },
      ],
      marks: [
        ...raising(recorded, formula).map((step) => ({
          at: tileEnds[step] as number,
          label: `tile ${step + 1} raises the maximum to ${topText(recorded.state(formula, step).top, base)}`,
        })),
        ...splitEnds.map((position, split) => ({ at: position, label: `partial of split ${split}` })),
        ...mergeEnds.map((position, index) => ({ at: position, label: `merge ${index + 1}` })),
      ],
      describe: (position) => sentence(shown, at(position)),
      eventsOfSelection: () => {
        const split = shown.selectedSplit();
        if (split === undefined) return undefined;
        const mine = tileEnds.filter((_, step) => recorded.tiles[step]?.split === split);
        const below = leavesOf(plan, recorded.splits);
        const merges = mergeEnds.filter((_, k) => below[recorded.splits + k]?.includes(split));
        return [...mine, ...(splitEnds[split] === undefined ? [] : [splitEnds[split]]), ...merges];
      },
    },
  };
}

/** The tiles that raise their split's maximum, after its first. */
function raising(recorded: Recorded, formula: FormulaName): number[] {
  const top = (step: number) => recorded.state(formula, step).top;
  return recorded.tiles.flatMap(({ split }, step) =>
    step > 0 && recorded.tiles[step - 1]?.split === split && top(step) > top(step - 1) ? [step] : [],
  );
}

function sentence({ recorded, formula, plan, base, lseOf }: Shown, moment: Moment): string {
  switch (moment.kind) {
    case "start":
      return "No score has arrived: m = −inf, O = 0.";
    case "partial": {
      const lse = lseOf(moment.split);
      if (!recorded.steps[moment.split])
        return `Split ${moment.split} has no tokens: its partial stays LSE = −inf.`;
      return `Split ${moment.split} is done: O / d and LSE = ${lseText(lse, base)} are its partial.`;
    }
    case "merge": {
      const below = leavesOf(plan, recorded.splits);
      const taken = (plan[moment.index] as number[]).map((node) => below[node] as number[]);
      const what =
        taken.length > 2 ? `${nodeName(taken.flat())} at once` : taken.map(nodeName).join(" with ");
      return `Merge ${moment.index + 1} of ${plan.length}: ${what}.`;
    }
    case "tile":
      return tileSentence(recorded, formula, moment.step, moment.phase, base);
  }
}

function tileSentence(
  recorded: Recorded,
  formula: FormulaName,
  step: number,
  phase: (typeof PHASES)[number],
  base: Base,
): string {
  const tile = recorded.tiles[step] as Recorded["tiles"][number];
  const state = recorded.state(formula, step);
  const first = recorded.steps[tile.split]?.first === step;
  const before = first ? Number.NEGATIVE_INFINITY : recorded.state(formula, step - 1).top;
  const where = `Split ${tile.split}, ${tokens(tile)}`;
  switch (phase) {
    case "scores":
      return `${where}: ${format.plural(tile.end - tile.start, "score")}, the largest ${topText(state.tileTop, base)}.`;
    case "maximum":
      return state.top > before
        ? `${where}: the maximum grows from ${topText(before, base)} to ${topText(state.top, base)}.`
        : `${where}: the maximum stays ${topText(state.top, base)}.`;
    case "rescale":
      return `${where}: d and O are multiplied by ${number(state.rescale)}.`;
    case "sum":
      return `${where}: ${grown(formula, before, state, base)}the weights add ${number(state.tileTotal)}; d = ${number(state.total)}.`;
  }
}

/** "tokens 64 to 127", or the only one. */
function tokens({ start, end }: { start: number; end: number }): string {
  if (end - start === 1) return `token ${format.count(start)}`;
  return `tokens ${format.count(start)} to ${format.count(end - 1)}`;
}

/** What a whole tile did to the maximum, for those who step tile by tile. */
function grown(formula: FormulaName, before: number, state: State, base: Base): string {
  if (formula === "unshifted") return "";
  const now = topText(state.top, base);
  if (before === Number.NEGATIVE_INFINITY) return `the maximum is ${now}; `;
  if (!(state.top > before)) return `the maximum stays ${now}; `;
  return `the maximum grows from ${topText(before, base)} to ${now}, α = ${number(state.rescale)}; `;
}

/** "s2", "s0 to s3", "s0, s2". */
export function nodeName(leaves: number[]): string {
  const [first, last] = [leaves[0] as number, leaves[leaves.length - 1] as number];
  if (leaves.length === 1) return `s${first}`;
  if (last - first === leaves.length - 1 && leaves.length > 2) return `s${first}…s${last}`;
  return leaves.map((leaf) => `s${leaf}`).join("+");
}
