// How the words of tensor memory are read: as a reader chose, or as the matrices and instructions there say.

import type { Format } from "@sglab/memory/words";
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
  const tile = facts.tiles[region.tile];
  const element = tile?.type ?? said(region.writer) ?? said(region.reader) ?? said(region.next);
  if (tile?.type === "f16" && tile.packed === 1) return "f16";
  return OF_ELEMENTS[element ?? ""] ?? UNKNOWN;
}

/** What is read alike and has one scale of colours: a matrix's cells, or those of matrices of one letter. */
export interface Kind {
  format: Format;
  /** "S", "O", "D1"; "" of what is no matrix's. */
  of: string;
}

/** How cells are read: each is of one of the kinds. */
export interface Reads {
  kinds: Kind[];
  /** Of each CTA's cells, numbers in `kinds`. */
  masks: Uint8Array[];
}

const APART = 3; // results with a scale each; of more the numbers are compared

/** Scores and what they become differ by orders of magnitude: S and O each have a scale, and D0 and D1. */
function scaleOf(facts: Facts, region: Region): string {
  const tile = facts.tiles[region.tile];
  if (!tile) return "";
  const letter = tile.name.replace(/\d+$/, "");
  const alike = facts.tiles.filter(({ name }) => name.startsWith(letter)).length;
  return letter === "D" && alike > 1 && alike <= APART ? tile.name : letter;
}

export function readsOf(facts: Facts, reading: Reading, regions: readonly Region[], ctas: number): Reads {
  const kinds: Kind[] = [{ format: reading === "own" ? UNKNOWN : reading, of: "" }];
  const masks = Array.from({ length: ctas }, () => new Uint8Array(COLUMNS * LANES));
  if (reading !== "own") return { kinds, masks };
  for (const region of regions) {
    const mask = masks[region.cta];
    if (!mask || region.state === 0) continue;
    const kind: Kind = { format: formatOf(facts, reading, region), of: scaleOf(facts, region) };
    let number = kinds.findIndex(({ format, of }) => format === kind.format && of === kind.of);
    if (number < 0) number = kinds.push(kind) - 1;
    for (let column = region.column; column < region.column + region.columns; column++)
      mask.fill(number, column * LANES + region.lane, column * LANES + region.lane + region.lanes);
  }
  return { kinds, masks };
}
