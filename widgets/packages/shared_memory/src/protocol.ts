// What crosses between the page and sglab/widgets/shared_memory.py.

import type { MmaKind } from "@sglab/memory/instruction_descriptor";
import { type Finding, MEMORY, type ShownMoment } from "@sglab/memory/protocol";
import type { Flavour, Major } from "@sglab/memory/smem_descriptor";
import type { Swizzle } from "@sglab/memory/swizzle";
import { command, dict, int, list, none, protocol, type Source, tensor } from "@sglab/protocol";

export interface Launch {
  kernel: string;
  arch: string;
  warpsPerCta: number;
  /** "CTA warp" → what the warp does, where its code shows it. */
  roles: Record<string, string>;
  cta: number;
  ctas: number[];
  /** Bytes of the window; the first 1,024 are the system's. */
  bytes: number;
  dynamic: number;
  empty: string;
  /** Why the kernel failed and what to do; empty if it did not. */
  error: string;
  /** The tab that is open at first; empty for that of the tile. */
  tab: string;
}

/** Part of the window that something names. */
export interface Area {
  /** "symbol", "dynamic", "tile", "operand", "mbarrier", "reserved" */
  kind: "reserved" | "symbol" | "dynamic" | "tile" | "operand" | "copy" | "mbarrier";
  name: string;
  start: number;
  bytes: number;
  /** Number of the tile it opens, or -1. */
  tile: number;
}

/** Bytes with a logical shape: a TMA box, or an operand of an MMA. */
export interface Tile {
  id: number;
  name: string;
  source: "map" | "descriptor";
  start: number;
  bytes: number;
  swizzle: Swizzle;
  /** M or N, and K, in elements; of a box: its rows, and its inner dimension. */
  rows: number;
  k: number;
  element: string;
  elementBits: number;
  /** Of a descriptor: hexadecimal. */
  bits: string;
  flavour: Flavour;
  major: Major;
  /** Of tcgen05: kind, instruction descriptor. */
  kind: MmaKind | "";
  idesc: number;
  ctaGroup: 1 | 2;
  operand: "A" | "B" | "";
  /** Of a box: which tensor map. */
  map: number;
}

export interface TensorMap {
  address: string;
  element: string;
  elementBits: number;
  dims: number[];
  strides: number[];
  box: number[];
  elementStrides: number[];
  swizzle: number;
  interleave: number;
  nanFill: boolean;
  im2col: boolean;
  name: string;
}

export interface Access {
  pc: number;
  warp: number;
  lanes: number;
  bytes: number;
  reads: boolean;
  writes: boolean;
  /** Whether lanes that change the same word take turns, as of an atomic; older recordings do not say. */
  turns?: boolean;
  addresses: number[];
  /** "just made" or "about to be made" */
  when: string;
}

/** Threads of one warp that count the same groups of cp.async; numbers of events, -1 for never. */
export interface Pipeline {
  warp: number;
  /** Mask. */
  lanes: number;
  /** Of which `groups` are the first. */
  total: number;
  /** Oldest first. */
  groups: Group[];
  waits: Wait[];
}

export interface Group {
  number: number;
  copies: number;
  nbytes: number;
  start: number;
  end: number;
  /** First copy, commit_group, the wait that saw it done. */
  opened: number;
  committed: number;
  completed: number;
}

export interface Wait {
  event: number;
  /** How many closed groups it lets be in flight. */
  left: number;
  completed: number[];
  in_flight: number[];
}

/** All executions of one instruction that accesses shared memory, of all warps of the CTA. */
export interface InstructionBanks {
  pc: number;
  executions: number;
  /** Of a lane. */
  nbytes: number;
  reads: boolean;
  passes: number;
  least: number;
  /** Passes had every address been permuted so, by name. */
  permuted: Record<string, number>;
  /** Event of its first execution. */
  first: number;
  start: number;
  end: number;
}

/** What accesses say that bytes hold: from how many moments on, which element type, "" where nothing says it. */
export interface ElementSpan {
  start: number;
  end: number;
  phases: [from: number, element: string][];
}

export interface Barrier {
  offset: number;
  phase: number;
  pending: number;
  expected: number;
  tx: number;
}

export interface Flying {
  text: string;
  warp: number;
  cta: number;
  start: number;
  bytes: number;
}

export interface FrameInfo extends ShownMoment {
  findings: Finding[];
  /** What to know about this moment. */
  note: string;
  /** Rows of the tensor `bytes`. */
  rows: [number, number];
  alive: boolean;
  accesses: Access[];
  mbarriers: Barrier[];
  inFlight: Flying[];
}

export const SHARED_MEMORY = protocol("shared_memory", 2, MEMORY, {
  traits: {
    launch: dict<Launch>(),
    frames: list<FrameInfo>(),
    areas: list<Area>(),
    tiles: list<Tile>(),
    maps: list<TensorMap>(),
    pipelines: list<Pipeline>(),
    banks: list<InstructionBanks>(),
    elements: list<ElementSpan>(),
  },
  commands: { show_cta: command({ cta: int() }, none()) },
  tensors: {
    bytes: tensor("uint8", ["rows", 128]),
    written: tensor("uint8", ["rows", 16]),
    moments: tensor("int32", ["moments", 15]),
  },
});

export type SharedMemorySource = Source<typeof SHARED_MEMORY>;
