// What crosses between the page and sglab/widgets/draft_tree.py.

import type { Opened } from "@sglab/engine/opener";
import { COMMON, command, dict, int, list, protocol, type Source, tensor, text } from "@sglab/protocol";

export interface RequestInfo {
  name: string;
  passes: number;
  drafted: number;
  accepted: number;
}

export interface RunInfo {
  /** NGRAM, STANDALONE or EAGLE. */
  algorithm: string;
  /** Of all requests. */
  drafted: number;
  accepted: number;
  /** Numbers of the passes that the shown request was verified in. */
  numbers: number[];
  /** Tokens that each of them added to the request; not in pages saved before it was counted. */
  gained?: number[];
  pageSize: number;
}

export const DRAFT_TREE = protocol("draft_tree", 1, COMMON, {
  traits: {
    requests: list<RequestInfo>(),
    request: int(),
    step: int(),
    run: dict<RunInfo>(),
    texts: dict<Record<string, string>>(),
  },
  commands: {
    /** Makes a widget on what is shown. */
    open_widget: command({ widget: text(), step: int() }, dict<Opened>()),
    /** Shows another request; answers with how many trees it has. */
    show: command({ request: int() }, int()),
  },
  tensors: {
    nodes: tensor("int32", ["passes", "nodes", 10]),
    scores: tensor("float64", ["passes", "nodes", 2]),
    likely: tensor("int32", ["passes", "nodes", "tokens"]),
    likely_probs: tensor("float32", ["passes", "nodes", "tokens"]),
    passes: tensor("int32", ["passes", 6]),
  },
});

export type DraftTreeSource = Source<typeof DRAFT_TREE>;
