// What Python sends about shared memory, as the views read it.

import type { Numbers } from "@sglab/protocol";
import type { SharedMemorySource } from "./protocol";

export type Kind = "copy" | "mma" | "ld" | "st" | "commit" | "wait";
export const KINDS: Kind[] = ["copy", "mma", "ld", "st", "commit", "wait"];
export const LINE = 128;
/** Mask of a chunk whose 16 bytes have all been written. */
export const WRITTEN = 0xffff;

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

export async function readMoments(source: SharedMemorySource): Promise<Moments> {
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
