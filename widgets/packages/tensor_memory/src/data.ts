// What Python sends about tensor memory, as the views read it.

import { type Numbers, sliceTensor, type Tensor } from "@sglab/protocol";
import type { FrameInfo, TensorMemorySource, Tile } from "./protocol";

export const COLUMNS = 512;
export const LANES = 128;
export const QUARTER = 32;

export type Kind = "alloc" | "dealloc" | "st" | "ld" | "mma" | "cp" | "shift" | "commit" | "wait";
export const KINDS: Kind[] = ["alloc", "dealloc", "st", "ld", "mma", "cp", "shift", "commit", "wait"];

export const STATES = [
  "uninitialised",
  "written, not read yet",
  "read, needed again",
  "dead: not read again before it is overwritten or freed",
] as const;

export interface Region {
  cta: number;
  lane: number;
  lanes: number;
  column: number;
  columns: number;
  state: number;
  /** Moments: who wrote it last, who read it last, who touches it next; -1 for none. */
  writer: number;
  reader: number;
  next: number;
  tile: number;
}

export interface Moments {
  length: number;
  position: Numbers;
  cta: Numbers;
  warp: Numbers;
  pc: Numbers;
  kind: Numbers;
  tile: Numbers;
  /** lane, lanes, column, columns of what it touches; lanes 0 where it touches nothing */
  place: Numbers;
  /** Operations issued before that are carried out here. */
  carried: Numbers;
}

const MOMENT_COLUMNS = 11;
const REGION_COLUMNS = 10;

export async function readMoments(source: TensorMemorySource): Promise<Moments> {
  const { shape, data } = await source.slice("moments", 0, 1e9);
  const length = shape[0] as number;
  const column = (index: number) =>
    Int32Array.from({ length }, (_, i) => data[i * MOMENT_COLUMNS + index] as number);
  const place = new Int32Array(length * 4);
  for (let i = 0; i < length; i++)
    for (let j = 0; j < 4; j++) place[i * 4 + j] = data[i * MOMENT_COLUMNS + 6 + j] as number;
  return {
    length,
    position: column(0),
    cta: column(1),
    warp: column(2),
    pc: column(3),
    kind: column(4),
    tile: column(5),
    place,
    carried: column(10),
  };
}

export async function readRegions(source: TensorMemorySource, frame: FrameInfo): Promise<Region[]> {
  // All of them: a live session's one frame then requests the same rows at every moment.
  return regionsOf(sliceTensor(await source.slice("regions", 0, 1e9), ...frame.regions));
}

function regionsOf({ shape, data }: Tensor): Region[] {
  return Array.from({ length: shape[0] as number }, (_, i) => {
    const at = (column: number) => data[i * REGION_COLUMNS + column] as number;
    return {
      cta: at(0),
      lane: at(1),
      lanes: at(2),
      column: at(3),
      columns: at(4),
      state: at(5),
      writer: at(6),
      reader: at(7),
      next: at(8),
      tile: at(9),
    };
  });
}

export function regionAt(regions: Region[], cta: number, lane: number, column: number): Region | undefined {
  return regions.find(
    (r) =>
      r.cta === cta &&
      lane >= r.lane &&
      lane < r.lane + r.lanes &&
      column >= r.column &&
      column < r.column + r.columns,
  );
}

/** Row and first column of the matrix that are in a cell. */
export function logicalOf(
  tile: Tile,
  cta: number,
  lane: number,
  column: number,
): { row: number; column: number } | undefined {
  for (const [rank, firstLane, lanes, firstColumn, columns, row, first] of tile.blocks as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ][]) {
    if (rank !== cta || lane < firstLane || lane >= firstLane + lanes) continue;
    if (column < firstColumn || column >= firstColumn + columns) continue;
    return { row: row + lane - firstLane, column: first + (column - firstColumn) * tile.packed };
  }
  return undefined;
}

export function addressText(lane: number, column: number): string {
  return `tmem[${lane},${column}]`;
}

export function parseAddress(text: string): { lane: number; column: number } | undefined {
  const found = /^\s*(?:tmem)?\s*\[?\s*(\d+)\s*[, ]\s*(\d+)\s*\]?\s*$/i.exec(text);
  if (found) {
    const [lane, column] = [Number(found[1]), Number(found[2])];
    return lane < LANES && column < COLUMNS ? { lane, column } : undefined;
  }
  const raw = /^\s*0x([0-9a-f]{1,8})\s*$/i.exec(text);
  if (!raw) return undefined;
  const bits = Number.parseInt(raw[1] as string, 16);
  const [lane, column] = [bits >>> 16, bits & 0xffff];
  return lane < LANES && column < COLUMNS ? { lane, column } : undefined;
}
