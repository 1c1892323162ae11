// What every partial and every merge holds under the chosen formulas, beside the float64 answer over the same keys.

import type { Numbers } from "@sglab/protocol";
import type { Held } from "./choices";
import type { Recorded } from "./data";
import type { FormulaName, RuleName } from "./formulas";
import { exactMerge, leavesOf, merge, type Partial, type Plan, relativeError } from "./merge";
import type { Node } from "./merge_view";

export interface Result {
  leaves: number[];
  computed: Partial;
  truth: Partial;
  error: number;
  /** Of a merge: what it multiplied each O by, and what float64 multiplies it by. */
  shares: number[];
  trueShares: number[];
}

export function resultsOf(
  recorded: Recorded,
  formula: FormulaName,
  rule: RuleName,
  plan: Plan,
  held: Map<number, Held>,
): Result[] {
  const all = Array.from({ length: recorded.splits }, (_, split) => split);
  const truths = all.map((split) => truthOf(recorded, split, held.get(split) ?? "kernel"));
  const computed: (Partial & { shares?: number[] })[] = all.map((split) =>
    partialOf(recorded, formula, split, held.get(split) ?? "kernel"),
  );
  for (const taken of plan) {
    const parts = taken.map((node) => computed[node] as Partial);
    computed.push(merge(rule, parts));
    truths.push(exactMerge(taken.map((node) => truths[node] as Partial)));
  }
  return leavesOf(plan, recorded.splits).map((leaves, node) => {
    const mine = computed[node] as Partial & { shares?: number[] };
    const truth = truths[node] as Partial;
    const taken = plan[node - recorded.splits] ?? [];
    const trueShares = taken.map((each) => shareOf(truths[each] as Partial, truth));
    return {
      leaves,
      computed: mine,
      truth,
      error: relativeError(mine.o, truth.o),
      shares: mine.shares ?? [],
      trueShares,
    };
  });
}

/** exp(LSE of the part − LSE of the whole): its weight. Without any keys, 0. */
export function shareOf(part: Partial, whole: Partial): number {
  return part.lse > Number.NEGATIVE_INFINITY ? Math.exp(part.lse - whole.lse) : 0;
}

/** The float64 answer over all keys that the partials cover. */
export function exactWhole(recorded: Recorded, held: Map<number, Held>): Partial {
  return exactMerge(
    Array.from({ length: recorded.splits }, (_, split) =>
      truthOf(recorded, split, held.get(split) ?? "kernel"),
    ),
  );
}

/** The nodes of the tree; `ready` says which exist at the moment that is shown. */
export function nodesOf(
  results: Result[],
  held: Map<number, Held>,
  ready: (node: number) => boolean,
): Node[] {
  return results.map(({ leaves, computed, truth, error }, node) => ({
    leaves,
    lse: computed.lse,
    error,
    changed: held.has(node),
    empty: truth.lse === Number.NEGATIVE_INFINITY,
    ready: ready(node),
  }));
}

function truthOf(recorded: Recorded, split: number, held: Held): Partial {
  if (held !== "kernel") return { o: new Float64Array(recorded.vDim), lse: Number.NEGATIVE_INFINITY };
  return { o: recorded.trueO[split] as Numbers, lse: recorded.trueLse[split] as number };
}

/** The kernel's own partial; under another formula, what its recurrence ends with. */
function partialOf(recorded: Recorded, formula: FormulaName, split: number, held: Held): Partial {
  const steps = recorded.steps[split];
  if (held !== "kernel")
    return {
      o: new Float32Array(recorded.vDim).fill(held === "garbage" ? Number.NaN : 0),
      lse: held === "infinite" ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY,
    };
  if (formula === "online" || !steps)
    return { o: recorded.partialO[split] as Numbers, lse: recorded.partialLse[split] as number };
  const { top, total } = recorded.state(formula, steps.last);
  const divisor = formula === "guarded" ? total || 1 : total;
  const o = recorded.accumulator(formula, steps.last).map((value) => value / divisor) as Numbers;
  return { o, lse: Math.fround((top + Math.log2(total)) * Math.LN2) };
}
