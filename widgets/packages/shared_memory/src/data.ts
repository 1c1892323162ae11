// What Python sends about shared memory, as the views read it.

import type { Numbers, Source } from "@sglab/core";
import type { MmaKind } from "@sglab/memory/instruction_descriptor";
import type { Finding } from "@sglab/memory/parts";
import type { Flavour, Major } from "@sglab/memory/smem_descriptor";
import type { Swizzle } from "@sglab/memory/swizzle";

export type Kind = "copy" | "mma" | "ld" | "st" | "commit" | "wait";
export const KINDS: Kind[] = ["copy", "mma", "ld", "st", "commit", "wait"];
export const LINE = 128;
/** Mask of a chunk whose 16 bytes have all been written. */
export const WRITTEN = 0xffff;

export interface Launch {
  kernel: string;
  arch: string;
  warpsPerCta: number;
  /** "CTA warp" → what the warp does, where its code tells. */
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

export interface Code {
  line: number;
  opcode: string;
  text: string;
  source: string;
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

export interface FrameInfo {
  findings: Finding[];
  moment: number;
  position: number;
  /** What to know about this moment. */
  note: string;
  /** Rows of the tensor `bytes`. */
  rows: [number, number];
  alive: boolean;
  accesses: Access[];
  mbarriers: Barrier[];
  inFlight: Flying[];
}

export interface Moments {
  length: number;
  position: Numbers;
  cta: Numbers;
  warp: Numbers;
  pc: Numbers;
  kind: Numbers;
  /** Tiles involved: of a copy its box, of an MMA its A and B; -1 for none. */
  tile: Numbers;
  other: Numbers;
  start: Numbers;
  bytes: Numbers;
  carried: Numbers;
  /** Five per moment: where a box begins in its tensor. */
  coordinates: Numbers;
}

const COLUMNS = 15;

export async function readMoments(source: Source): Promise<Moments> {
  const { shape, data } = await source.slice("moments", 0, 1e9);
  const length = shape[0] as number;
  const column = (index: number) =>
    Int32Array.from({ length }, (_, i) => data[i * COLUMNS + index] as number);
  return {
    length,
    position: column(0),
    cta: column(1),
    warp: column(2),
    pc: column(3),
    kind: column(4),
    tile: column(5),
    other: column(6),
    start: column(7),
    bytes: column(8),
    carried: column(9),
    coordinates: Int32Array.from(
      { length: 5 * length },
      (_, i) => data[Math.floor(i / 5) * COLUMNS + 10 + (i % 5)] as number,
    ),
  };
}

export function smem(offset: number): string {
  return `smem+0x${offset.toString(16)}`;
}

/** "12, 40" or "[12,40]": row and column of an element. */
export function parseElement(text: string): [row: number, column: number] | undefined {
  const found = /^\s*\[?\s*(\d+)\s*[,;\s]\s*(\d+)\s*\]?\s*$/.exec(text);
  return found ? [Number(found[1]), Number(found[2])] : undefined;
}

export function parseSmem(text: string): number | undefined {
  const found = /^\s*(?:smem\s*\+?\s*)?(0x[0-9a-f]+|\d+)\s*$/i.exec(text);
  return found ? Number(found[1]) : undefined;
}
