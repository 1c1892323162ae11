// Merging partials, in float32 as a kernel does it: rules, orders, and the float64 answer. Pure: no DOM.

import type { Numbers } from "@sglab/protocol";
import type { RuleName } from "./formulas";

/** An attention result over some keys; `lse` is natural. */
export interface Partial {
  o: Numbers;
  lse: number;
}

const f = Math.fround;
const LOG2_E = f(Math.LOG2E);
const LN_2 = f(Math.LN2);
const exp = (x: number) => f(Math.exp(x));
const exp2 = (x: number) => f(2 ** x);
const sum = (values: number[]) => values.reduce((total, value) => f(total + value), 0);
/** As CUDA's fmaxf: a NaN loses against a number. */
const fmax = (values: number[]) =>
  values.reduce((a, b) => (Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.max(a, b)));

function weighted(parts: Partial[], shares: number[], skipEmpty = false): Float32Array {
  const o = new Float32Array(parts[0]?.o.length ?? 0);
  parts.forEach((part, i) => {
    const share = shares[i] as number;
    if (skipEmpty && part.lse === Number.NEGATIVE_INFINITY) return;
    for (let j = 0; j < o.length; j++) o[j] = f((o[j] as number) + f(share * (part.o[j] as number)));
  });
  return o;
}

/** A merge's result, and what it multiplied each O by. */
export interface Merged extends Partial {
  shares: number[];
}

/** Two or more partials become one. */
export function merge(rule: RuleName, given: Partial[]): Merged {
  switch (rule) {
    case "v2_guarded":
      return mergeV2(given, true);
    case "merge_state_v2":
      return mergeV2(given, false);
    case "merge_state":
      return mergeBase2(given);
    case "divide_by_max": {
      const top = Math.max(...given.map(({ lse }) => lse));
      const shares = given.map(({ lse }) => exp(f(lse - top)));
      return { o: weighted(given, shares), lse: top, shares };
    }
    case "newcomer_unweighted":
      return mergeUnweighted(given);
    case "base2_in_natural": {
      const { o, lse, shares } = mergeV2(
        given.map(({ o, lse }) => ({ o, lse: f(lse * LOG2_E) })),
        false,
      );
      return { o, lse: f(lse * LN_2), shares };
    }
    case "unshifted": {
      const weights = given.map(({ lse }) => exp(lse));
      const total = sum(weights);
      const shares = weights.map((weight) => f(weight / total));
      return { o: weighted(given, shares), lse: f(Math.log(total)), shares };
    }
  }
}

function mergeV2(given: Partial[], guarded: boolean): Merged {
  const lses = given.map(({ lse }) => (lse === Number.POSITIVE_INFINITY ? Number.NEGATIVE_INFINITY : lse));
  const parts = given.map(({ o }, i) => ({ o, lse: lses[i] as number }));
  let top = Math.max(...lses);
  if (guarded && top === Number.NEGATIVE_INFINITY) top = 0;
  const weights = lses.map((lse) => exp(f(lse - top)));
  const total = sum(weights);
  const scale = guarded && total === 0 ? 0 : f(1 / total);
  const shares = weights.map((weight) => f(weight * scale));
  return { o: weighted(parts, shares, guarded), lse: f(f(Math.log(total)) + top), shares };
}

function mergeBase2(given: Partial[]): Merged {
  const lses = given.map(({ lse }) => f(lse * LOG2_E));
  const top = fmax(lses);
  const weights = lses.map((lse) => exp2(fmax([f(lse - top), Number.NEGATIVE_INFINITY])));
  const total = sum(weights);
  const scale = total > 0 ? f(1 / total) : 0;
  const shares = weights.map((weight) => f(weight * scale));
  return { o: weighted(given, shares), lse: f(f(f(Math.log2(total)) + top) * LN_2), shares };
}

function mergeUnweighted(given: Partial[]): Merged {
  let [top, total] = [Number.NEGATIVE_INFINITY, 0];
  let shares: number[] = [];
  for (const { lse } of given) {
    const newTop = Math.max(top, lse);
    const rescale = exp(f(top - newTop));
    // a sum that holds nothing yet takes the first partial as it is
    shares = [...shares.map((share) => f(share * rescale)), 1];
    total = f(f(total * rescale) + exp(f(lse - newTop)));
    top = newTop;
  }
  shares = shares.map((share) => f(share / total));
  return { o: weighted(given, shares), lse: f(top + f(Math.log(total))), shares };
}

/** The same in float64, straight from the definition; only empty partials give O = 0, LSE = −inf. */
export function exactMerge(parts: Partial[]): Partial {
  const present = parts.filter(({ lse }) => lse > Number.NEGATIVE_INFINITY);
  const o = new Float64Array(parts[0]?.o.length ?? 0);
  const top = Math.max(...present.map(({ lse }) => lse));
  const total = present.reduce((all, { lse }) => all + Math.exp(lse - top), 0);
  for (const part of present) {
    const share = Math.exp(part.lse - top) / total;
    for (let j = 0; j < o.length; j++) o[j] = (o[j] as number) + share * (part.o[j] as number);
  }
  return { o, lse: present.length ? top + Math.log(total) : Number.NEGATIVE_INFINITY };
}

/** ‖o − truth‖ / ‖truth‖; where the truth is 0, ‖o‖. */
export function relativeError(o: Numbers, truth: Numbers): number {
  let difference = 0;
  let norm = 0;
  for (let j = 0; j < truth.length; j++) {
    difference += ((o[j] as number) - (truth[j] as number)) ** 2;
    norm += (truth[j] as number) ** 2;
  }
  return Math.sqrt(norm > 0 ? difference / norm : difference);
}

/** Merges by the nodes that they take: leaves are 0 … n − 1, the k-th merge makes node n + k. */
export type Plan = number[][];
export const ORDERS = {
  fold: "one after the other",
  reverse: "from the last",
  tree: "as a tree",
  once: "all at once",
  hand: "by hand",
} as const;
export type Order = keyof typeof ORDERS;

export function planOf(order: Order, leaves: number): Plan {
  if (leaves < 2 || order === "hand") return [];
  const all = Array.from({ length: leaves }, (_, i) => i);
  if (order === "once") return [all];
  if (order === "tree") return treePlan(all);
  const line = order === "fold" ? all : all.reverse();
  return line.slice(1).map((leaf, k) => [k === 0 ? (line[0] as number) : leaves + k - 1, leaf]);
}

function treePlan(leaves: number[]): Plan {
  const plan: Plan = [];
  let level = leaves;
  while (level.length > 1) {
    const next: number[] = [];
    for (let i = 0; i < level.length; i += 2) {
      const pair = level.slice(i, i + 2);
      if (pair.length === 1) next.push(pair[0] as number);
      else next.push(leaves.length + plan.push(pair) - 1);
    }
    level = next;
  }
  return plan;
}

/** The nodes that no merge has taken yet. */
export function roots(plan: Plan, leaves: number): number[] {
  const taken = new Set(plan.flat());
  return Array.from({ length: leaves + plan.length }, (_, node) => node).filter((node) => !taken.has(node));
}

/** The leaves below every node. */
export function leavesOf(plan: Plan, leaves: number): number[][] {
  const below = Array.from({ length: leaves }, (_, leaf) => [leaf]);
  for (const taken of plan)
    below.push(taken.flatMap((node) => below[node] as number[]).sort((a, b) => a - b));
  return below;
}
