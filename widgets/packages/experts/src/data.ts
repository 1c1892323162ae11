// One layer's routing in one pass, as Python recorded it.

import type { Numbers } from "@sglab/protocol";
import type { ExpertsSource, LayerInfo, PassInfo, Rule, Shown } from "./protocol";

export interface Token {
  token: number;
  position: number;
  /** Row of the batch. */
  request: number;
}

/** Experts in places, rank after rank. */
export interface Spread {
  physical: number[];
  /** Choices that each rank computes. */
  rankLoad: number[];
}

export interface Recorded {
  shown: Shown;
  passes: PassInfo[];
  layers: LayerInfo[];
  rule: Rule;
  texts: Record<string, string>;
  tokens: Token[];
  /** Of the requests, by row of the batch; empty: they have none. */
  names: readonly string[];
  logits: Numbers;
  scores: Numbers;
  bias: Numbers;
  kept: Numbers;
  ids: Numbers;
  weights: Numbers;
  sorted: Numbers;
  blockExperts: Numbers;
  postPad: number;
  /** Of this layer in all passes. */
  load: number[];
  even: Spread;
  eplb: Spread;
}

const NAMES = [
  "logits",
  "scores",
  "bias",
  "kept",
  "ids",
  "weights",
  "tokens",
  "sorted_token_ids",
  "expert_ids",
  "num_tokens_post_pad",
  "load",
  "even.physical",
  "even.load",
  "eplb.physical",
  "eplb.load",
] as const;

export async function readRun(source: ExpertsSource): Promise<Recorded> {
  const all = await Promise.all(NAMES.map((name) => source.slice(name, 0, 2 ** 31)));
  const at = (name: (typeof NAMES)[number]) => all[NAMES.indexOf(name)]?.data as Numbers;
  const shown = source.get("shown");
  const rule = source.get("rule");
  const tokens = at("tokens");
  const passes = source.get("passes");
  const spread = (name: "even" | "eplb"): Spread => ({
    physical: Array.from(at(`${name}.physical`)),
    rankLoad: Array.from(at(`${name}.load`)),
  });
  return {
    shown,
    passes,
    names: passes[shown.step]?.rids ?? [],
    layers: source.get("layers"),
    rule,
    texts: source.get("texts"),
    tokens: Array.from({ length: tokens.length / 3 }, (_, i) => ({
      token: tokens[3 * i] as number,
      position: tokens[3 * i + 1] as number,
      request: tokens[3 * i + 2] as number,
    })),
    logits: at("logits"),
    scores: at("scores"),
    bias: at("bias"),
    kept: at("kept"),
    ids: at("ids"),
    weights: at("weights"),
    sorted: at("sorted_token_ids"),
    blockExperts: at("expert_ids"),
    postPad: at("num_tokens_post_pad")[0] as number,
    load: Array.from(at("load").subarray(shown.layer * rule.experts, (shown.layer + 1) * rule.experts)),
    even: spread("even"),
    eplb: spread("eplb"),
  };
}

/** A token's choices in the router's order: expert and weight. */
export function choicesOf(
  { ids, weights, rule }: Recorded,
  token: number,
): { expert: number; weight: number }[] {
  return Array.from({ length: rule.topK }, (_, i) => ({
    expert: ids[token * rule.topK + i] as number,
    weight: weights[token * rule.topK + i] as number,
  }));
}

export function groupOf({ rule }: Recorded, expert: number): number {
  return Math.floor((expert * rule.groups) / rule.experts);
}

/** Of a token: its best groups, or all where there are none. */
export function keepsGroup({ kept, rule }: Recorded, token: number, group: number): boolean {
  return kept[token * rule.groups + group] === 1;
}

/** What experts are chosen by. */
export function choiceScore({ scores, bias, rule }: Recorded, token: number, expert: number): number {
  return (scores[token * rule.experts + expert] as number) + (bias[expert] as number);
}

/** Tokens per expert among the first `count` tokens of this pass. */
export function loadOf(recorded: Recorded, count: number): number[] {
  const load = new Array<number>(recorded.rule.experts).fill(0);
  for (let token = 0; token < count; token++)
    for (const { expert } of choicesOf(recorded, token))
      if (expert >= 0) load[expert] = (load[expert] ?? 0) + 1;
  return load;
}

/** How uneven: the fullest over the mean; 1: all are the same. */
export function imbalance(load: readonly number[]): number {
  const mean = load.reduce((sum, each) => sum + each, 0) / load.length;
  return mean ? Math.max(...load) / mean : 1;
}
