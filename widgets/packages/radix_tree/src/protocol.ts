// What crosses between the page and sglab/widgets/radix_tree.py.

import type { Opened } from "@sglab/engine/opener";
import { LINES, STEP_OPENER } from "@sglab/engine/protocol";
import { command, dict, int, list, protocol, type Source, text } from "@sglab/protocol";

/** A node that is new or different; `text`, `tokens` and `pages` only where they changed. */
export interface NodeChange {
  id: number;
  /** -1: the root's. */
  parent: number;
  lock: number;
  /** Last access, in accesses of the tree. */
  at: number;
  /** On the device, on the host; left out: on the device alone. */
  where?: [number, number];
  text?: string;
  tokens?: number;
  /** Runs of pages, first and last. */
  pages?: [number, number][];
  /** Namespace. */
  space?: string;
}

export type Kind = "start" | "match" | "split" | "insert" | "lock" | "unlock" | "evict" | "load" | "reset";

/** One operation; see TreeOp. What is empty is left out. */
export interface Op {
  kind: Kind;
  step: number;
  /** Free, evictable, protected slots after it. */
  pool: [number, number, number];
  clock: number;
  set: NodeChange[];
  /** Number of the request; -1: none. */
  rid: number;
  tokens?: number;
  found?: number;
  aligned?: number;
  path?: number[];
  del?: number[];
  /** Node, tokens, last access, why. */
  evicted?: [number, number, number, string][];
}

export const RADIX_TREE = protocol("radix_tree", 1, LINES, {
  traits: { ...STEP_OPENER, page_size: int(), pool_size: int(), steps: int(), requests: list<string>() },
  commands: {
    open_attention: command({ widget: text(), step: int(), layer: int() }, dict<Opened>()),
  },
  tensors: {},
});

export type RadixTreeSource = Source<typeof RADIX_TREE>;
