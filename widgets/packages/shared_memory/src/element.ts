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
/** Whole chunks of integers are moved, whatever they hold. */
const MOVED = /\.v4\.[us]32\b/;

/** From a moment on, what the elements are; undefined where no access says. */
export interface Phase {
  from: number;
  element: Element | undefined;
}

/**
 * An array may be a union: halves are copied in, and sums of another type stored over them. A phase is as long as
 * what writes it stays the same: copies, or stores. `opcodeOf`: of the instruction at a pc.
 */
export function phasesOf(
  { length, kind, pc, start, bytes }: Moments,
  opcodeOf: (pc: number) => string | undefined,
  from: number,
  size: number,
): Phase[] {
  const phases: Phase[] = [];
  let writer: Kind | undefined;
  let began = 0;
  let votes = new Map<string, number>();
  const end = () => phases.push({ from: began, element: chosen(votes) });
  for (let i = 0; i < length; i++) {
    const what = KINDS[kind[i] as number] as Kind;
    if (what !== "copy" && what !== "ld" && what !== "st") continue;
    const [begin, many] = [start[i] as number, bytes[i] as number];
    if (begin >= from + size || begin + many <= from) continue;
    if (what !== "ld" && what !== writer) {
      if (writer) {
        end();
        [began, votes] = [i, new Map()];
      }
      writer = what;
    }
    const type = what === "copy" ? undefined : typeOf(opcodeOf(pc[i] as number));
    if (type) votes.set(type, (votes.get(type) ?? 0) + 1);
  }
  end();
  return phases;
}

/** After `moment` moments. */
export function elementIn(phases: readonly Phase[], moment: number): Element | undefined {
  return phases.findLast(({ from }) => from < Math.max(1, moment))?.element;
}

/** The type that most name; of plain bits only where none does. */
function chosen(votes: Map<string, number>): Element | undefined {
  const types = [...votes].sort((a, b) => b[1] - a[1]).map(([type]) => type);
  const said = types.find((type) => !PLAIN.test(type)) ?? types[0];
  return said === undefined ? undefined : TYPES[said];
}

/** "f32" of "ld.shared.v4.f32"; matrices of 8×8 hold 16 bits each. */
function typeOf(opcode: string | undefined): string | undefined {
  if (!opcode || MOVED.test(opcode)) return undefined;
  return opcode.split(".").findLast((part) => part in TYPES);
}
