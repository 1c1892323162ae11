// What crosses between the page and sglab/widgets/scheduler.py.

import type { Opened } from "@sglab/engine/opener";
import { LINES, STEP_OPENER } from "@sglab/engine/protocol";
import { command, dict, int, list, protocol, type Source, text } from "@sglab/protocol";

export interface Facts {
  page_size: number;
  pool_size: number;
  policy: string;
  max_running_requests: number;
  max_prefill_tokens: number;
  /** -1: prompts are never cut. */
  chunked_prefill_size: number;
  mixed: boolean;
  overlap: boolean;
  model: string;
  /** Attention layers; 0 without a model. */
  layers: number;
}

export interface Request {
  rid: string;
  /** Tokens. */
  prompt: number;
  /** Steps that had been planned when it came. */
  arrival: number;
  /** max_new_tokens; 0: not known. */
  most: number;
  /** The prompt's beginning. */
  text: string;
  /** How it ended after the last step, which no step records; empty: it did not. */
  ended: string;
}

export type Phase = "prefill" | "chunk" | "decode" | "verify";
/** Request, phase, tokens in the pool before, new tokens, of the former those found in the radix tree. */
export type Share = [number, Phase, number, number, number];
/** Request, result, reason; then the budgets when it was offered: rem_total, cur_rem, rem_input, rem_chunk. */
export type Decision = [number, string, string, number?, number?, number?, (number | null)?];

/** One step; what is empty is left out. */
export interface Step {
  mode: string;
  batch: Share[];
  /** Free, evictable, protected, private; and in use on the host. Slots. */
  pool: [number, number, number, number, number];
  ratio: number;
  waiting: number[];
  /** Hold slots but did not run. */
  paused: number[];
  /** Request, tokens generated, their text. */
  out: [number, number, string][];
  why?: Decision[];
  stopped?: string;
  /** Why the pass could not run. */
  failed?: string;
  policy?: string;
  retracted?: number[];
  finished?: [number, string][];
  evicted?: number;
  loaded?: number;
  /** Accepted, drafted. */
  drafts?: [number, number];
  /** The captured size that was replayed. */
  graph?: number;
  /** Whether its attention can be opened. */
  opens?: number;
}

export const SCHEDULER = protocol("scheduler", 1, LINES, {
  traits: { ...STEP_OPENER, facts: dict<Facts>(), requests: list<Request>() },
  commands: {
    open_attention: command({ widget: text(), step: int(), layer: int() }, dict<Opened>()),
  },
  tensors: {},
});

export type SchedulerSource = Source<typeof SCHEDULER>;
