// What crosses between the page and sglab/widgets/tensor_memory.py.

import { type Finding, MEMORY, type ShownMoment } from "@sglab/memory/protocol";
import { command, dict, int, list, none, protocol, type Source, tensor } from "@sglab/protocol";

export interface Launch {
  kernel: string;
  warpsPerCta: number;
  /** "CTA warp" → what the warp does, where its code shows it. */
  roles: Record<string, string>;
  /** Linear indices of the CTAs shown, by rank in the cluster: one, or a pair. */
  ctas: number[];
  /** The first CTA of every cluster that can be shown. */
  clusters: number[][];
  /** Whether cells' words are known: a recording has none. */
  values: boolean;
  /** Why there is nothing to show; empty otherwise. */
  empty: string;
  /** Why the kernel failed and what to do; empty if it did not. */
  error: string;
  /** What to know about the picture: shown beside it. */
  note: string;
}

/** A matrix that an instruction keeps in tensor memory. */
export interface Tile {
  id: number;
  /** Role and number: "D0", "A1". */
  name: string;
  role: "D" | "A";
  type: string;
  rows: number;
  columns: number;
  ctaGroup: number;
  /** [CTA rank, first lane, lanes, first tensor-memory column, columns, first row of the matrix, first column] */
  blocks: number[][];
  /** Elements per 32-bit column. */
  packed: number;
}

export interface Allocation {
  number: number;
  column: number;
  columns: number;
}

export interface FrameInfo extends ShownMoment {
  findings: Finding[];
  /** What to know about this moment. */
  note: string;
  allocations: Allocation[][];
  /** Rows of the tensor `regions`. */
  regions: [number, number];
  /** Operations issued and not carried out, in words. */
  inFlight: string[];
}

export const TENSOR_MEMORY = protocol("tensor_memory", 2, MEMORY, {
  traits: {
    launch: dict<Launch>(),
    frames: list<FrameInfo>(),
    tiles: list<Tile>(),
    /** By pc of a load or a store, the type of the elements that it moves, where an instruction says it. */
    elements: dict<Record<string, string>>(),
  },
  commands: { show_cluster: command({ cta: int() }, none()) },
  tensors: {
    cells: tensor("int32", ["columns", 128]),
    regions: tensor("int32", ["regions", 10]),
    moments: tensor("int32", ["moments", 11]),
  },
});

export type TensorMemorySource = Source<typeof TENSOR_MEMORY>;
