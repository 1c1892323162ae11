// The 64-bit shared-memory descriptor of tcgen05 and of wgmma, and the addresses it describes.
// Written after the emulator's tensor/smem_descriptor.{hpp,cpp}; a test compares the two on random descriptors.

import { type Field, hex, readField } from "./fields";
import { type Swizzle, swizzleAddress, swizzlePeriod, swizzleSpan, swizzleWords } from "./swizzle";

export type Flavour = "tcgen05" | "wgmma";
export type Major = "K" | "MN";

export interface SmemDescriptor {
  start: number;
  leadingOffset: number;
  strideOffset: number;
  baseOffset: number;
  leadingIsAbsolute: boolean;
  swizzle: Swizzle;
}

const TCGEN05_LAYOUTS = [
  [0, "no swizzle"],
  [1, "128B, 32-byte atoms"],
  [2, "128B"],
  [4, "64B"],
  [6, "32B"],
] as const;
const TCGEN05_SWIZZLE: Record<number, Swizzle> = {
  0: "none",
  1: "128B_atom_32B",
  2: "128B",
  4: "64B",
  6: "32B",
};
const WGMMA_LAYOUTS = [
  [0, "no swizzle"],
  [1, "128B"],
  [2, "64B"],
  [3, "32B"],
] as const;
const WGMMA_SWIZZLE: readonly Swizzle[] = ["none", "128B", "64B", "32B"];

const LEADING = "leading byte offset (LBO)";
const STRIDE = "stride byte offset (SBO)";
const bytesMeaning = (raw: number) => `${(raw * 16).toLocaleString("en-US")} B`;
const COMMON: Field[] = [
  { name: "start address", low: 0, width: 14, unit: 16, meaning: (raw) => `smem+${hex(raw * 16)}` },
  { name: LEADING, low: 16, width: 14, unit: 16, meaning: bytesMeaning },
  { name: STRIDE, low: 32, width: 14, unit: 16, meaning: bytesMeaning },
];
const BASE_OFFSET: Field = {
  name: "base offset",
  low: 49,
  width: 3,
  meaning: (raw) =>
    raw === 0 ? "the pattern starts on its own boundary" : `the pattern starts ${raw} rows in`,
};

/** What the two offsets step over depends on the swizzle and on the major dimension. */
function offsetMeanings(swizzle: Swizzle | undefined, major: Major): [leading: string, stride: string] {
  if (!swizzle) return ["", ""];
  const plain = swizzle === "none";
  const lines = swizzle === "128B_atom_32B" ? 4 : 8;
  if (major === "K")
    return [plain ? "to the next 16 B along K" : "not used: K-major, with a swizzle", "to the next 8 rows"];
  if (plain) return ["to the next 8 along K", "to the next 16 B along M or N"];
  return [`to the next ${swizzleSpan(swizzle)} B along M or N`, `to the next ${lines} along K`];
}

/** The fields of a descriptor, each with what it means in this one. */
export function smemFields(bits: bigint, flavour: Flavour, major: Major): Field[] {
  const raw = Number((bits >> 61n) & 7n);
  const swizzle = flavour === "wgmma" ? WGMMA_SWIZZLE[raw >> 1] : TCGEN05_SWIZZLE[raw];
  const [leading, stride] = offsetMeanings(swizzle, major);
  const meanings: Record<string, string> = { [LEADING]: leading, [STRIDE]: stride };
  return SMEM_FIELDS[flavour].map((field) => {
    const meaning = meanings[field.name];
    return meaning ? { ...field, meaning: (value) => `${bytesMeaning(value)}, ${meaning}` } : field;
  });
}

const SMEM_FIELDS: Record<Flavour, Field[]> = {
  tcgen05: [
    ...COMMON,
    {
      name: "version",
      low: 46,
      width: 3,
      meaning: (raw) => (raw === 1 ? "tcgen05" : "must be 1 for tcgen05"),
    },
    BASE_OFFSET,
    {
      name: "LBO mode",
      low: 52,
      width: 1,
      meaning: (raw) => (raw ? "absolute address (sm_103a only)" : "byte offset"),
      choices: [
        [0, "byte offset"],
        [1, "absolute"],
      ],
    },
    {
      name: "swizzle",
      low: 61,
      width: 3,
      meaning: (raw) => {
        const swizzle = TCGEN05_SWIZZLE[raw];
        return swizzle ? swizzleWords(swizzle) : "reserved";
      },
      choices: TCGEN05_LAYOUTS,
    },
  ],
  wgmma: [
    ...COMMON,
    BASE_OFFSET,
    {
      name: "swizzle",
      low: 62,
      width: 2,
      meaning: (raw) => swizzleWords(WGMMA_SWIZZLE[raw] as Swizzle),
      choices: WGMMA_LAYOUTS,
    },
  ],
};

/** Throws, as the emulator does, on reserved layouts and a wrong version. */
export function decodeSmemDescriptor(bits: bigint, flavour: Flavour): SmemDescriptor {
  const [start, leading, stride] = COMMON.map((field) => readField(bits, field) * 16) as [
    number,
    number,
    number,
  ];
  const descriptor = {
    start,
    leadingOffset: leading,
    strideOffset: stride,
    baseOffset: readField(bits, BASE_OFFSET),
    leadingIsAbsolute: false,
  };
  if (flavour === "wgmma") {
    const swizzle = WGMMA_SWIZZLE[Number((bits >> 62n) & 3n)] as Swizzle;
    return { ...descriptor, swizzle };
  }
  const version = Number((bits >> 46n) & 7n);
  if (version !== 1)
    throw new Error(`Version (bits 46–48) must be 1 in a tcgen05 descriptor; found ${version}.`);
  const layout = Number((bits >> 61n) & 7n);
  const swizzle = TCGEN05_SWIZZLE[layout];
  if (!swizzle) throw new Error(`Swizzle (bits 61–63) ${layout} is reserved; expected 0, 1, 2, 4 or 6.`);
  return { ...descriptor, leadingIsAbsolute: ((bits >> 52n) & 1n) === 1n, swizzle };
}

/** Remarks on what is legal but rarely intended. */
export function smemDescriptorRemarks(d: SmemDescriptor, major: Major): string[] {
  const period = swizzlePeriod(d.swizzle);
  const remarks = [];
  const begin = d.start - d.baseOffset * 128;
  // Steps along K of one atom move the start by less than a row; whole rows shift the pattern.
  if (major === "K" && begin % period >= swizzleSpan(d.swizzle) && d.swizzle !== "none")
    remarks.push(
      `The start is ${begin % period} bytes into the ${period}-byte pattern: rows are permuted as if they were ` +
        `rows ${Math.floor((begin % period) / 128)} and on. Align the tile to ${period} bytes or set a base offset.`,
    );
  if (d.swizzle === "none" && (d.leadingOffset === 0 || d.strideOffset === 0))
    remarks.push("Without a swizzle both offsets matter: an offset of 0 reads the same eight rows again.");
  return remarks;
}

/**
 * Address of the 16-byte chunk that holds
 *   K-major: row `line`, bytes 16·chunk … along K;
 *   MN-major: K index `line`, bytes 16·chunk … along M or N.
 * The canonical layouts of the PTX ISA, then the swizzle.
 */
export function chunkAddresses(d: SmemDescriptor, major: Major): (line: number, chunk: number) => number {
  if (d.leadingIsAbsolute)
    throw new Error(
      "Absolute leading-dimension addresses (bit 52, sm_103a) are not implemented by the emulator.",
    );
  const plain = d.swizzle === "none";
  const span = swizzleSpan(d.swizzle);
  const phase = (d.baseOffset & 7) << 7;
  const chunks = span / 16;
  let lines = 8;
  let lineGroup = d.strideOffset;
  let chunkGroup = d.leadingOffset;
  if (major === "K") {
    if (d.swizzle === "128B_atom_32B")
      throw new Error("128B swizzle with 32-byte atoms needs an MN-major operand.");
    if (!plain) chunkGroup = span;
  } else if (plain) {
    lineGroup = d.leadingOffset;
    chunkGroup = d.strideOffset;
  } else if (d.swizzle === "128B_atom_32B") lines = 4;
  return (line, chunk) => {
    const linear =
      d.start +
      Math.floor(line / lines) * lineGroup +
      (line % lines) * span +
      Math.floor(chunk / chunks) * chunkGroup +
      (chunk % chunks) * 16;
    return swizzleAddress(d.swizzle, linear - phase) + phase;
  };
}

export interface OperandShape {
  /** M or N in this CTA. */
  rows: number;
  /** Stored elements along K. */
  k: number;
  bits: number;
  major: Major;
}

export interface OperandChunk {
  address: number;
  line: number;
  chunk: number;
}

/** Every chunk of an operand, in order of line, then chunk. */
export function operandChunks(d: SmemDescriptor, shape: OperandShape): OperandChunk[] {
  const address = chunkAddresses(d, shape.major);
  const lines = shape.major === "K" ? shape.rows : shape.k;
  const length = shape.major === "K" ? shape.k : shape.rows;
  const chunks = Math.ceil((length * shape.bits) / 128);
  const all = [];
  for (let line = 0; line < lines; line++)
    for (let chunk = 0; chunk < chunks; chunk++) all.push({ address: address(line, chunk), line, chunk });
  return all;
}
