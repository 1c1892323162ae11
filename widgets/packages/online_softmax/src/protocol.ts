// What crosses between the page and sglab/widgets/online_softmax.py.

import {
  COMMON,
  command,
  dict,
  float,
  int,
  optional,
  protocol,
  type Source,
  tensor,
  text,
} from "@sglab/protocol";
import type { Choices, Held } from "./choices";
import type { Plan } from "./merge";

export interface Question {
  request: number;
  head: number;
  num_splits: number;
  tile: number;
  scale_by: number;
  /** Of the keys: one of ORDERS_OF_KEYS. */
  order: string;
  /** Whose partials. */
  kernel: string;
}

export interface RunInfo {
  batchSize: number;
  numHeads: number;
  dtype: string;
  maxSplits: number;
  /** Kernels that can run on this batch. */
  kernels: string[];
  /** Why one of the others cannot, by its name; absent in older pages. */
  refused?: Record<string, string>;
  /** The requests' names; absent in older pages. */
  names?: string[];
  /** Scores are capped by tanh at this, in natural logits; 0 or absent: they are not. */
  logitCap?: number;
}

/** Where the reader is: a saved page opens there. */
export interface Place {
  position: number;
  splits: number;
  choices: Choices;
  plan: Plan;
  held: [number, Held][];
}

export const ONLINE_SOFTMAX = protocol("online_softmax", 1, COMMON, {
  traits: {
    question: dict<Question>(),
    run: dict<RunInfo>(),
    progress: float(),
    place: dict<Partial<Place>>(),
  },
  commands: {
    /** Records again; answers with the revision that shows it. */
    edit: command(
      {
        request: optional(int()),
        head: optional(int()),
        num_splits: optional(int()),
        tile: optional(int()),
        scale_by: optional(float()),
        order: optional(text()),
        kernel: optional(text()),
      },
      int(),
    ),
  },
  tensors: {
    scores: tensor("float32", ["keys"]),
    tiles: tensor("int32", ["tiles", 3]),
    partial_o: tensor("float32", ["splits", "dims"]),
    partial_lse: tensor("float32", ["splits"]),
    kernel_o: tensor("float32", ["dims"]),
    kernel_lse: tensor("float32", [1]),
    true_o: tensor("float64", ["splits", "dims"]),
    true_lse: tensor("float64", ["splits"]),
    so_far_o: tensor("float64", ["tiles", "dims"]),
    "{formula}.state": tensor("float32", ["tiles", 6]),
    "{formula}.o": tensor("float32", ["tiles", "dims"]),
  },
});

export type OnlineSoftmaxSource = Source<typeof ONLINE_SOFTMAX>;
