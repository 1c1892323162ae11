// The moments of a launch as the transport steps through them.

import type { Granularity, Mark } from "@sglab/core";
import { KINDS, type Kind, type Moments } from "./data";
import type { Access } from "./protocol";
import type { Facts } from "./words";

function stopsOf(moments: Moments, kinds: readonly Kind[]): Int32Array {
  const found = [];
  for (let i = 0; i < moments.length; i++)
    if (kinds.includes(KINDS[moments.kind[i] as number] as Kind)) found.push(i + 1);
  return Int32Array.from(found);
}

export function granularitiesOf(moments: Moments): Granularity[] {
  const sizes: Granularity[] = [
    { id: "event", label: "shared-memory event" },
    { id: "access", label: "ld, st", stops: stopsOf(moments, ["ld", "st"]) },
    { id: "copy", label: "copy", stops: stopsOf(moments, ["copy"]) },
    { id: "mma", label: "mma", stops: stopsOf(moments, ["mma"]) },
    { id: "group", label: "commit or wait", stops: stopsOf(moments, ["commit", "wait"]) },
  ];
  return sizes.filter(({ stops }) => stops === undefined || stops.length > 0);
}

const MARKED: [kinds: Kind[], label: string][] = [
  [["copy"], "copy"],
  [["commit", "wait"], "commit or wait"],
];

/** What orders a launch's moments: copies or groups of them; without any, where what is done changes, such as from writing to reading. */
export function marksOf(moments: Moments): Mark[] {
  for (const [kinds, label] of MARKED) {
    const stops = stopsOf(moments, kinds);
    if (stops.length) return Array.from(stops, (at) => ({ at, label }));
  }
  const kind = (i: number) => KINDS[moments.kind[i] as number] as Kind;
  const changes = Array.from({ length: moments.length }, (_, i) => i).filter(
    (i) => i > 0 && kind(i) !== kind(i - 1),
  );
  return changes.map((i) => ({ at: i + 1, label: kind(i) }));
}

/** Moments that touch an address, or use a tile. */
export function eventsOf(
  moments: Moments,
  address: number | undefined,
  tile: number,
  tiles: readonly { start: number; bytes: number }[],
): Int32Array | undefined {
  if (address === undefined && tile < 0) return undefined;
  const found = [];
  const inside = (start: number, bytes: number) =>
    address !== undefined && address + 16 > start && address < start + bytes;
  for (let i = 0; i < moments.length; i++) {
    const used = [moments.tile[i], moments.other[i]] as number[];
    const uses = used.includes(tile) && tile >= 0;
    const boxes = used.map((id) => tiles[id]).filter((each) => each !== undefined);
    const touches = inside(moments.start[i] as number, moments.bytes[i] as number);
    if (uses || touches || boxes.some((box) => inside(box.start, box.bytes))) found.push(i + 1);
  }
  return Int32Array.from(found);
}

/** Where the lanes of an access go: ranges of whole chunks of 16 bytes, ascending, [start, end) each. */
export function chunkRuns({ addresses, lanes, bytes }: Access): [number, number][] {
  const starts = addresses.filter((_, lane) => (lanes >>> lane) & 1).sort((a, b) => a - b);
  const runs: [number, number][] = [];
  for (const start of starts) {
    const [from, to] = [start - (start % 16), Math.ceil((start + bytes) / 16) * 16];
    const last = runs.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else runs.push([from, to]);
  }
  return runs;
}

export function chunksOf(from: number, to: number): number[] {
  return Array.from({ length: (to - from) / 16 }, (_, i) => from + i * 16);
}

/** Byte ranges that the last of the first `moment` moments touched: [start, end) each. */
export function touchedBy({ moments, tiles }: Facts, moment: number): [number, number][] {
  if (moment === 0) return [];
  const last = moment - 1;
  const start = moments.start[last] as number;
  const bytes = moments.bytes[last] as number;
  if (bytes) return [[start, start + bytes]];
  return [moments.tile[last], moments.other[last]]
    .map((id) => tiles[id as number])
    .filter((each) => each !== undefined)
    .map((each) => [each.start, each.start + each.bytes]);
}
