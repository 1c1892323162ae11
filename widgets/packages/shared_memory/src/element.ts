// What the elements of an array are, as the instructions say that load and store it. Pure.

import { KINDS, type Kind, type Moments } from "./data";
import type { Element } from "./raw_panel";

/** The types that PTX names of loads and stores; of plain bits the likeliest. */
const TYPES: Record<string, Element> = {
  f16: "f16",
  f16x2: "f16",
  bf16: "bf16",
  bf16x2: "bf16",
  f32: "f32",
  u8: "u8",
  s8: "u8",
  b8: "u8",
  u16: "u16",
  s16: "u16",
  b16: "f16",
  u32: "u32",
  s32: "s32",
  b32: "f32",
};
const PLAIN = /^b\d+$/;
const ACCESSES: Kind[] = ["ld", "st"];

/** `opcodeOf`: of the instruction at a pc. Undefined where no access says: copies and matrices carry no type. */
export function elementOf(
  { length, kind, pc, start, bytes }: Moments,
  opcodeOf: (pc: number) => string | undefined,
  from: number,
  size: number,
): Element | undefined {
  const votes = new Map<string, number>();
  for (let i = 0; i < length; i++) {
    if (!ACCESSES.includes(KINDS[kind[i] as number] as Kind)) continue;
    const [begin, many] = [start[i] as number, bytes[i] as number];
    if (begin >= from + size || begin + many <= from) continue;
    const type = typeOf(opcodeOf(pc[i] as number));
    if (type) votes.set(type, (votes.get(type) ?? 0) + 1);
  }
  const types = [...votes].sort((a, b) => b[1] - a[1]).map(([type]) => type);
  const said = types.find((type) => !PLAIN.test(type)) ?? types[0];
  return said === undefined ? undefined : TYPES[said];
}

/** "f32" of "ld.shared.v4.f32"; matrices of 8×8 hold 16 bits each. */
function typeOf(opcode: string | undefined): string | undefined {
  return opcode?.split(".").findLast((part) => part in TYPES);
}
