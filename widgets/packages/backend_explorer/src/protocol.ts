// What crosses between the page and sglab/widgets/backend_explorer.py.

import type { Opened } from "@sglab/engine/opener";
import { COMMON, command, dict, int, list, protocol, type Source, text } from "@sglab/protocol";

export interface Question {
  seq_lens: number[];
  model: string;
  machine: string;
  version: string;
  mode: string;
  new_tokens: number;
  num_heads: number | null;
  num_kv_heads: number | null;
  page_size: number | null;
  kv_cache_dtype: string;
  sliding_window: number;
  logit_cap: number;
  cuda_graph: boolean;
  deterministic: boolean;
  /** Ranks that a request's context, or a prompt's new tokens, are spread over; above 1 rows are the first rank's. */
  dcp_size: number;
  attn_cp_size: number;
}

export interface Options {
  models: { name: string; like: string }[];
  machines: string[];
  versions: string[];
  modes: string[];
  kvDtypes: string[];
  /** Fields that a live batch decides. */
  fixed: string[];
}

/** SGLang's choice in one version, or why it would not start. */
export interface Choice {
  version: string;
  refused?: string;
  prefill?: string;
  decode?: string;
  reason?: string;
  pageSize?: number;
  graph?: boolean;
  notes?: string[];
}

export interface Refusal {
  by: "backend" | "machine" | "SGLang";
  text: string;
  argument: string;
}

export interface ArrayInfo {
  name: string;
  dtype: string;
  shape: number[];
  bytes: number;
  /** Another array at the same place; its bytes are counted there. */
  sameAs: string;
  host: boolean;
  head: number[];
}

export interface PlanInfo {
  /** Why there is none. */
  none?: string;
  planner: string;
  title: string;
  why: string;
  workspaceBytes: number;
  arrayBytes: number;
  partialBytes: number;
  ctas: number | null;
  waves: number | null;
  splits: [number, number] | null;
}

export interface CostInfo {
  rows: number;
  kv: number;
  other: number;
  copied: number;
  qo: number;
  index: number;
  partial: number;
  bytes: number;
  flops: number;
  wasted: number;
  intensity: number;
  bound: { ns: number; by: string } | null;
  notes: string[];
}

export interface Row {
  name: string;
  chosen: boolean;
  pageSize: number;
  /** Empty: it refuses the pass. */
  servedBy: string;
  refusals: Refusal[];
  /** What SGLang adjusts when this backend is named. */
  named: string[];
  kernels: string;
  machine: string;
  source: string;
  here: string;
  differs: string;
  notes: string[];
  arrays: ArrayInfo[];
  numbers: Record<string, number | string | boolean>;
  scratch: { name: string; bytes: number; kept: string }[];
  /** Widget, or "run" -> why it cannot be opened. */
  closed: Record<string, string>;
  arrayBytes?: number;
  passScratch?: number;
  keptScratch?: number;
  graphBytes?: number;
  plan?: PlanInfo;
  cost?: CostInfo;
}

/** A backend that ran here. */
export interface Ran {
  backend: string;
  batch: string;
  runs: { operator: string; implementation: string; machine: string }[];
  notes: string[];
  /** Largest difference to attention in float64. */
  error: number;
  dtype: string;
}

export const BACKEND_EXPLORER = protocol("backend_explorer", 1, COMMON, {
  traits: {
    question: dict<Question>(),
    options: dict<Options>(),
    choices: list<Choice>(),
    rows: list<Row>(),
  },
  commands: {
    /** Asks again; answers with the revision that shows it. */
    change: command({ question: dict<Partial<Question>>() }, int()),
    run: command({ backend: text() }, dict<Ran>()),
    open_widget: command({ widget: text(), backend: text() }, dict<Opened>()),
  },
  tensors: {},
});

export type BackendSource = Source<typeof BACKEND_EXPLORER>;
