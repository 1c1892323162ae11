// Shared-memory swizzles: an exclusive-or of address bits, a function of the address inside the CTA's window.
// Written after the emulator's tensor/swizzle.hpp; a test compares the two on random addresses.

export const SWIZZLES = [
  "none",
  "32B",
  "64B",
  "128B",
  "128B_atom_32B",
  "128B_atom_32B_flip_8B",
  "128B_atom_64B",
] as const;
/** Of kernels that do their own permutation: chunk c of row r is at c ^ (r mod 8), as in FlashInfer. */
export const ROW_SWIZZLES = ["256B_rows", "512B_rows", "1024B_rows"] as const;
export type Swizzle = (typeof SWIZZLES)[number] | (typeof ROW_SWIZZLES)[number];

/** Those that move 16-byte chunks inside their row; Python counts bank conflicts under each. */
export const CHUNK_SWIZZLES: Swizzle[] = ["32B", "64B", "128B", ...ROW_SWIZZLES];

interface Rule {
  /** Bytes of one row of the pattern, and bytes after which the pattern repeats. */
  span: number;
  period: number;
  /** What the swizzle does, in address bits. */
  words: string;
  move: (address: number) => number;
}

const RULES: Record<Swizzle, Rule> = {
  none: { span: 16, period: 16, words: "nothing moves", move: (a) => a },
  "32B": { span: 32, period: 256, words: "bit 4 ^= bit 7", move: (a) => a ^ ((a >>> 3) & 0x10) },
  "64B": { span: 64, period: 512, words: "bits 4–5 ^= bits 7–8", move: (a) => a ^ ((a >>> 3) & 0x30) },
  "128B": { span: 128, period: 1024, words: "bits 4–6 ^= bits 7–9", move: (a) => a ^ ((a >>> 3) & 0x70) },
  "128B_atom_32B": {
    span: 128,
    period: 512,
    words: "bits 5–6 ^= bits 7–8",
    move: (a) => a ^ ((a >>> 2) & 0x60),
  },
  "128B_atom_32B_flip_8B": {
    span: 128,
    period: 512,
    words: "bits 5–6 ^= bits 7–8, bit 3 ^= bit 7",
    move: (a) => a ^ ((a >>> 2) & 0x60) ^ ((a >>> 4) & 0x8),
  },
  "256B_rows": rows(256, 8),
  "512B_rows": rows(512, 9),
  "1024B_rows": rows(1024, 10),
  "128B_atom_64B": { span: 128, period: 256, words: "bit 6 ^= bit 7", move: (a) => a ^ ((a >>> 1) & 0x40) },
};

function rows(span: number, bit: number): Rule {
  const words = `chunk ^= row mod 8 in rows of ${span} B: bits 4–6 ^= bits ${bit}–${bit + 2}`;
  return { span, period: 8 * span, words, move: (a) => a ^ ((a >>> (bit - 4)) & 0x70) };
}

export function swizzleAddress(swizzle: Swizzle, address: number): number {
  return RULES[swizzle].move(address);
}

export function swizzleSpan(swizzle: Swizzle): number {
  return RULES[swizzle].span;
}

export function swizzlePeriod(swizzle: Swizzle): number {
  return RULES[swizzle].period;
}

export function swizzleWords(swizzle: Swizzle): string {
  return RULES[swizzle].words;
}

/** A swizzle for a menu: its name, where it has one, and what it does. */
export function swizzleLabel(swizzle: Swizzle): string {
  const named = SWIZZLES.slice(1).some((each) => each === swizzle);
  return `${named ? `${swizzle} swizzle: ` : ""}${swizzleWords(swizzle)}`;
}
