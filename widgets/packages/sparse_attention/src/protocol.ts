// What crosses between the page and sglab/widgets/sparse_attention.py.

import { COMMON, command, dict, int, list, protocol, type Source, tensor } from "@sglab/protocol";

export interface Shown {
  layer: number;
  layers: number;
  /** Of the recorded layers, in the model; files of before have none. */
  numbers?: number[];
  heads: number;
  tokens: number;
  /** Of one token in the KV pool. */
  rowBytes: number;
  kvHeads: number;
}

/** A way to choose, and its outcome at every budget. */
export interface Rule {
  name: string;
  title: string;
  about: string;
  source: string;
  /** Relative error of all outputs, mean probability of the chosen keys, mean keys and pool rows of a query. */
  error: number[];
  mass: number[];
  keys: number[];
  rows: number[];
  /** What choosing reads and multiplies per query, beside the chosen rows. */
  indexBytes: number;
  indexFlops: number;
}

export const SPARSE_ATTENTION = protocol("sparse_attention", 1, COMMON, {
  traits: {
    shown: dict<Shown>(),
    texts: list<string>(),
    budgets: list<number>(),
    rules: list<Rule>(),
  },
  commands: {
    /** Shows another layer; answers with the revision that has it. */
    show: command({ layer: int() }, int()),
  },
  tensors: {
    probabilities: tensor("float32", ["heads", "queries", "keys"]),
    /** Bit s: chosen at step s. */
    "{rule}.chosen": tensor("int32", ["heads", "queries", "keys"]),
    "{rule}.error": tensor("float32", ["steps", "heads", "queries"]),
    "{rule}.mass": tensor("float32", ["steps", "heads", "queries"]),
  },
});

export type SparseSource = Source<typeof SPARSE_ATTENTION>;
