// What crosses between the page and sglab/widgets/split_kv.py.

import {
  COMMON,
  command,
  dict,
  list,
  optional,
  protocol,
  type Source,
  type Tensor,
  tensor,
} from "@sglab/protocol";

export interface Question {
  num_heads: number;
  num_kv_heads: number;
  sm_count: number;
  page_size: number | null;
  enable_cuda_graph: boolean;
}

export interface PlannerName {
  name: string;
  title: string;
  attention: "mla" | "any";
}

export interface ArrayInfo {
  name: string;
  dtype: string;
  shape: number[];
}

/** A planner that refused the batch has only `error`; `answered` distinguishes the two. */
export interface Pane {
  name: string;
  title: string;
  error?: string;
  source: string;
  /** How the planner came to its splits, in words. */
  why: string;
  units: number;
  drawn: boolean;
  grid: [number, number, number];
  ctas: number;
  clusterSize: number;
  ctasPerSm: number;
  smCount: number;
  waves: number;
  occupancy: number;
  idleShare: number;
  makespan: number;
  workspaceBytes: number;
  partials: number;
  outputs: number;
  mergeBytes: number;
  headBlockIs: string;
  scalars: Record<string, number | boolean>;
  arrays: ArrayInfo[];
}

export interface Answer {
  revision: number;
  question: Question;
  panes: Pane[];
  tensors: Record<string, Tensor>;
}

/** Where the reader is: a saved page opens there. Without a position at the end. */
export interface Place {
  position?: number;
}

export const SPLIT_KV = protocol("split_kv", 2, COMMON, {
  traits: {
    question: dict<Question>(),
    planners: list<PlannerName>(),
    panes: list<Pane>(),
    names: list<string>(),
    place: dict<Place>(),
  },
  commands: {
    edit: command(
      {
        seq_lens: optional(list<number>()),
        planners: optional(list<string>()),
        question: optional(dict<Partial<Question>>()),
      },
      dict<Answer>(),
    ),
  },
  tensors: {
    seq_lens: tensor("int32", ["requests"]),
    "{planner}.work": tensor<"int32" | "int64">(null, [12, "units"]),
    "{planner}.{array}": tensor(null, null),
  },
});

export type SplitKVSource = Source<typeof SPLIT_KV>;
