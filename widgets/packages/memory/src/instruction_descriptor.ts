// tcgen05.mma's 32-bit instruction descriptor, field by field.
// Written after the emulator's tensor/instruction_descriptor.cpp; a test compares the two on random descriptors.

import type { Field } from "./fields";
import type { Major } from "./smem_descriptor";

export const MMA_KINDS = ["f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"] as const;
export type MmaKind = (typeof MMA_KINDS)[number];

export interface InstructionDescriptor {
  m: number;
  n: number;
  k: number;
  aType: string;
  bType: string;
  dType: string;
  aMajor: Major;
  bMajor: Major;
  negateA: boolean;
  negateB: boolean;
  saturate: boolean;
  sparse: boolean;
}

type Types = Record<number, string>;
const F8: Types = { 0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1" };
const OPERANDS: Record<MmaKind, Types> = {
  f16: { 0: "f16", 1: "bf16" },
  tf32: { 2: "tf32" },
  f8f6f4: F8,
  i8: { 0: "u8", 1: "s8" },
  mxf8f6f4: F8,
  mxf4: { 1: "e2m1" },
  mxf4nvf4: { 1: "e2m1" },
};
const ACCUMULATORS: Partial<Record<MmaKind, Types>> = {
  f16: { 0: "f16", 1: "f32" },
  tf32: { 1: "f32" },
  f8f6f4: { 0: "f16", 1: "f32" },
  i8: { 2: "s32" },
};
const DENSE_K: Record<MmaKind, number> = {
  f16: 16,
  tf32: 8,
  f8f6f4: 32,
  i8: 32,
  mxf8f6f4: 32,
  mxf4: 64,
  mxf4nvf4: 64,
};

/** Bits of one stored element; elements of fewer than eight bits sit in 8-bit places except in kind::mxf4*. */
export function storedBits(type: string, kind: MmaKind): number {
  if (type === "tf32") return 32;
  if (type === "f16" || type === "bf16") return 16;
  return fourBit(kind) ? 4 : 8;
}

function fourBit(kind: MmaKind): boolean {
  return kind === "mxf4" || kind === "mxf4nvf4";
}

function blockScaled(kind: MmaKind): boolean {
  return kind.startsWith("mx");
}

const yesNo =
  (yes: string, no = "no") =>
  (raw: number) =>
    raw ? yes : no;
const typeMeaning = (types: Types) => (raw: number) => types[raw] ?? "not a type of this kind";
const choicesOf = (types: Types) => Object.entries(types).map(([raw, name]) => [Number(raw), name] as const);

function typeField(name: string, low: number, width: number, types: Types): Field {
  return { name, low, width, meaning: typeMeaning(types), choices: choicesOf(types) };
}

function flag(name: string, low: number, meaning: (raw: number) => string): Field {
  return {
    name,
    low,
    width: 1,
    meaning,
    choices: [
      [0, meaning(0)],
      [1, meaning(1)],
    ],
  };
}

export function instructionFields(kind: MmaKind): Field[] {
  const operands = OPERANDS[kind];
  const shared: Field[] = [
    typeField("type of A", 7, 3, operands),
    typeField("type of B", 10, fourBit(kind) ? 2 : 3, operands),
    flag("negate A", 13, yesNo("yes")),
    flag("negate B", 14, yesNo("yes")),
    flag("major of A", 15, yesNo("MN", "K")),
    flag("major of B", 16, yesNo("MN", "K")),
    { name: "N / 8", low: 17, width: 6, meaning: (raw) => `N = ${raw * 8}` },
    { name: "M / 16", low: 24, width: 5, meaning: (raw) => `M = ${raw * 16}` },
  ];
  const sparse = flag("sparse A", 2, yesNo("yes"));
  if (blockScaled(kind))
    return [
      sparse,
      { name: "scale id of B", low: 4, width: 2, meaning: (raw) => `byte ${raw} of the column` },
      ...shared,
      flag("type of scales", 23, yesNo("ue8m0", "ue4m3")),
      { name: "scale id of A", low: 29, width: 2, meaning: (raw) => `byte ${raw} of the column` },
    ];
  return [
    { name: "sparsity selector", low: 0, width: 2, meaning: (raw) => String(raw) },
    sparse,
    flag("saturate", 3, yesNo("yes")),
    typeField("type of D", 4, 2, ACCUMULATORS[kind] as Types),
    ...shared,
    {
      name: "maximum shift",
      low: 30,
      width: 2,
      meaning: (raw) => (raw ? `${4 << raw} rows (.ws)` : "none"),
    },
  ];
}

function refuse(kind: MmaKind, what: string): never {
  throw new Error(`kind::${kind}: ${what}.`);
}

/** Throws with the reason where the emulator refuses the descriptor. */
export function decodeInstructionDescriptor(bits: number, kind: MmaKind): InstructionDescriptor {
  const at = (low: number, width: number) => (bits >>> low) & (2 ** width - 1);
  const operand = (raw: number, name: string) =>
    OPERANDS[kind][raw] ?? refuse(kind, `the type of ${name}, ${raw}, is not one of this kind`);
  const aType = operand(at(7, 3), "A");
  const bType = operand(at(10, fourBit(kind) ? 2 : 3), "B");
  const d: InstructionDescriptor = {
    m: at(24, 5) << 4,
    n: at(17, 6) << 3,
    k: DENSE_K[kind] * (at(2, 1) ? 2 : 1),
    aType,
    bType,
    dType: "f32",
    aMajor: at(15, 1) ? "MN" : "K",
    bMajor: at(16, 1) ? "MN" : "K",
    negateA: at(13, 1) === 1,
    negateB: at(14, 1) === 1,
    saturate: false,
    sparse: at(2, 1) === 1,
  };
  if (blockScaled(kind)) checkBlockScaled(kind, at, d);
  else {
    d.dType =
      ACCUMULATORS[kind]?.[at(4, 2)] ?? refuse(kind, `the type of D, ${at(4, 2)}, is not one of this kind`);
    d.saturate = at(3, 1) === 1;
    if (d.saturate && kind !== "i8") refuse(kind, "saturation (bit 3) exists for kind::i8 only");
    if ((d.negateA || d.negateB) && kind === "i8") refuse(kind, "operands cannot be negated");
  }
  const narrow = (type: string) => ["e2m3", "e3m2", "e2m1"].includes(type);
  if ((d.aMajor === "MN" && narrow(aType)) || (d.bMajor === "MN" && narrow(bType)))
    refuse(kind, "operands of fewer than 8 bits cannot be transposed");
  return d;
}

function checkBlockScaled(
  kind: MmaKind,
  at: (low: number, width: number) => number,
  d: InstructionDescriptor,
): void {
  if (!at(23, 1) && kind !== "mxf4nvf4") refuse(kind, "scales must be ue8m0 (bit 23)");
  if (!fourBit(kind)) return;
  if (at(31, 1)) refuse(kind, "K = 96 (bit 31) exists on sm_103a only");
  if (d.aMajor !== "K" || d.bMajor !== "K") refuse(kind, "transposed operands do not exist");
  if ((at(29, 2) | at(4, 2)) & 1) refuse(kind, "scale factor ids must be 0 or 2");
}

/** What is wrong with the shape for this CTA group; empty where it is right. */
export function shapeProblem(d: InstructionDescriptor, kind: MmaKind, ctaGroup: 1 | 2): string {
  const shapes = blockScaled(kind)
    ? ctaGroup === 1
      ? [128]
      : d.sparse
        ? [256]
        : [128, 256]
    : ctaGroup === 1
      ? [64, 128]
      : [128, 256];
  if (!shapes.includes(d.m)) return `M = ${d.m}; expected ${shapes.join(" or ")} with cta_group::${ctaGroup}`;
  if (d.n < 8 || d.n > 256) return `N = ${d.n}; expected 8 to 256`;
  let step = ctaGroup === 2 ? 16 : 8;
  if (kind === "i8") step = ctaGroup === 2 ? 32 : d.n > 32 ? 16 : 8;
  if (d.bMajor === "MN" && ["e4m3", "e5m2", "u8", "s8"].includes(d.bType)) step = ctaGroup === 2 ? 32 : 16;
  return d.n % step ? `N = ${d.n}; expected a multiple of ${step} with cta_group::${ctaGroup}` : "";
}
