// What crosses between the page and sglab/widgets/experts.py.

import type { Opened } from "@sglab/engine/opener";
import {
  COMMON,
  command,
  dict,
  int,
  list,
  optional,
  protocol,
  type Source,
  tensor,
  text,
} from "@sglab/protocol";

export interface Shown {
  step: number;
  layer: number;
  ranks: number;
  redundant: number;
  block: number;
}

export interface PassInfo {
  number: number;
  mode: string;
  tokens: number;
  /** Of each row of the batch its request; empty or absent: they have no names. */
  rids?: string[];
}

export interface LayerInfo {
  layer: number;
  name: string;
}

/** How a layer routes: sglab/layers/moe/topk.py. */
export interface Rule {
  topK: number;
  scoring: "softmax" | "sigmoid";
  renormalize: boolean;
  scale: number;
  /** 1: none. */
  groups: number;
  topkGroup: number;
  biased: boolean;
  experts: number;
  /** Block sizes to choose from. */
  blocks: number[];
}

export const EXPERTS = protocol("experts", 1, COMMON, {
  traits: {
    shown: dict<Shown>(),
    passes: list<PassInfo>(),
    layers: list<LayerInfo>(),
    rule: dict<Rule>(),
    texts: dict<Record<string, string>>(),
  },
  commands: {
    /** Makes a widget on what is shown. */
    open_widget: command({ widget: text() }, dict<Opened>()),
    /** Shows other things; answers with the revision that has them. */
    show: command(
      {
        step: optional(int()),
        layer: optional(int()),
        ranks: optional(int()),
        redundant: optional(int()),
        block: optional(int()),
      },
      int(),
    ),
  },
  tensors: {
    logits: tensor("float32", ["tokens", "experts"]),
    scores: tensor("float32", ["tokens", "experts"]),
    bias: tensor("float32", ["experts"]),
    kept: tensor("uint8", ["tokens", "groups"]),
    ids: tensor("int32", ["tokens", "topk"]),
    weights: tensor("float32", ["tokens", "topk"]),
    tokens: tensor("int32", ["tokens", 3]),
    sorted_token_ids: tensor("int32", ["choices"]),
    expert_ids: tensor("int32", ["blocks"]),
    num_tokens_post_pad: tensor("int32", [1]),
    load: tensor("int32", ["mixtures", "experts"]),
    "even.physical": tensor("int32", ["places"]),
    "even.load": tensor("float64", ["ranks"]),
    "eplb.physical": tensor("int32", ["places"]),
    "eplb.load": tensor("float64", ["ranks"]),
  },
});

export type ExpertsSource = Source<typeof EXPERTS>;
