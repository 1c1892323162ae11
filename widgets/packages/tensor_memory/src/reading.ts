// How the words of tensor memory are read: as a reader chose, or as the matrices and instructions there say.

import { FORMATS, type Format } from "@sglab/memory/words";
import { COLUMNS, LANES, type Region } from "./data";
import type { Facts } from "./words";

/** "own": each cell as its matrix says, or the instructions that store and load it. */
export type Reading = Format | "own";

const OF_ELEMENTS: Record<string, Format> = {
  ...{ f32: "f32", tf32: "f32", f16: "f16x2", bf16: "bf16x2", e4m3: "e4m3x4" },
  ...{ s32: "s32", u32: "s32" },
};
const UNKNOWN: Format = "hex";

/** What a region's words are read as. */
export function formatOf(facts: Facts, reading: Reading, region: Region | undefined): Format {
  if (reading !== "own") return reading;
  if (!region) return UNKNOWN;
  const said = (moment: number) =>
    moment < 0 ? undefined : facts.elements[String(facts.moments.pc[moment])];
  const element =
    facts.tiles[region.tile]?.type ?? said(region.writer) ?? said(region.reader) ?? said(region.next);
  return OF_ELEMENTS[element ?? ""] ?? UNKNOWN;
}

/** The formats of a CTA's cells, as numbers in FORMATS. */
export function formatMask(
  facts: Facts,
  reading: Reading,
  regions: readonly Region[],
  cta: number,
): Uint8Array {
  const mask = new Uint8Array(COLUMNS * LANES).fill(FORMATS.indexOf(reading === "own" ? UNKNOWN : reading));
  if (reading !== "own") return mask;
  for (const r of regions) {
    if (r.cta !== cta || r.state === 0) continue;
    const number = FORMATS.indexOf(formatOf(facts, reading, r));
    for (let column = r.column; column < r.column + r.columns; column++)
      mask.fill(number, column * LANES + r.lane, column * LANES + r.lane + r.lanes);
  }
  return mask;
}
