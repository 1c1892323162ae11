// What crosses between the page and sglab/widgets/ranks.py.

import type { Opened } from "@sglab/engine/opener";
import { COMMON, command, dict, int, list, protocol, type Source, tensor, text } from "@sglab/protocol";

export interface PassInfo {
  number: number;
  /** ForwardMode of the groups that attend apart; several where they differ. */
  modes: string[];
  /** Of each group. */
  tokens: number[];
  /** MAX_LEN or SUM_LEN; empty: one group. */
  padding: string;
  /** Of the gathered tensor; 0: one group. */
  rows: number;
}

export type Kind = "all_reduce" | "all_gather" | "reduce_scatter" | "all_to_all" | "send";

export interface Joint {
  kind: Kind;
  /** What for, where the layer says it. */
  what: string;
  module: string;
  moduleClass: string;
  ranks: number[];
  /** By rank. */
  shapes: Record<string, number[]>;
  dtype: string;
  bytes: Record<string, number>;
  /** That leave a rank, by the ring algorithm. */
  moved: number;
}

export interface RunInfo {
  title: string;
  size: number;
  dpSize: number;
  epSize: number;
  backend: string;
}

export interface Part {
  name: string;
  axis: "out" | "in" | "vocab" | "expert";
  start: number;
  stop: number;
  whole: number;
  ids: number[];
}

export interface Held {
  shape: number[];
  bytes: number;
  parts: Part[];
}

export interface Weight {
  name: string;
  kind: "column" | "row" | "qkv" | "merged" | "replicated" | "vocab" | "expert" | "cut";
  /** By rank. */
  held: Held[];
}

export const RANKS = protocol("ranks", 1, COMMON, {
  traits: {
    step: int(),
    passes: list<PassInfo>(),
    joints: list<Joint>(),
    run: dict<RunInfo>(),
    shards: list<Weight>(),
  },
  commands: {
    /** Makes a widget on what is shown. */
    open_widget: command({ widget: text(), layer: int() }, dict<Opened>()),
    /** Shows another pass; answers with how many collectives it has. */
    show: command({ step: int() }, int()),
  },
  tensors: {
    times: tensor("float64", ["collectives", "ranks", 2]),
    parts: tensor("float64", ["collectives", "ranks", "ranks"]),
    begins: tensor("float64", ["ranks"]),
  },
});

export type RanksSource = Source<typeof RANKS>;
