// 32-bit cells read as numbers: how a widget shows the raw words that cross.

import { float16 } from "@sglab/protocol";

export const FORMATS = ["f32", "f16x2", "bf16x2", "e4m3x4", "s32", "hex"] as const;
/** f16: one in the low half, as sums in f16 lie in tensor memory. */
export type Format = (typeof FORMATS)[number] | "f16";
export const FORMAT_LABELS: Record<Format, string> = {
  f32: "f32",
  f16: "f16",
  f16x2: "2 × f16",
  bf16x2: "2 × bf16",
  e4m3x4: "4 × e4m3",
  s32: "s32",
  hex: "hex",
};

const scratch = new DataView(new ArrayBuffer(4));

export function f32(word: number): number {
  scratch.setInt32(0, word);
  return scratch.getFloat32(0);
}

export function e4m3(bits: number): number {
  const sign = bits & 0x80 ? -1 : 1;
  const exponent = (bits >> 3) & 15;
  const fraction = bits & 7;
  if (exponent === 15 && fraction === 7) return Number.NaN;
  if (exponent === 0) return sign * fraction * 2 ** -9;
  return sign * (1 + fraction / 8) * 2 ** (exponent - 7);
}

/** The numbers in a word, lowest bits first. */
export function numbersOf(word: number, format: Format): number[] {
  switch (format) {
    case "f32":
      return [f32(word)];
    case "f16":
      return [float16(word & 0xffff)];
    case "f16x2":
      return [float16(word & 0xffff), float16(word >>> 16)];
    case "bf16x2":
      return [f32(word << 16), f32(word & 0xffff0000)];
    case "e4m3x4":
      return [0, 8, 16, 24].map((shift) => e4m3((word >>> shift) & 0xff));
    case "s32":
      return [word | 0];
    case "hex":
      return [word >>> 0];
  }
}

/** The number a cell is coloured by: the one in its lowest bits. */
export function firstNumber(word: number, format: Format): number {
  switch (format) {
    case "f32":
      return f32(word);
    case "f16":
    case "f16x2":
      return float16(word & 0xffff);
    case "bf16x2":
      return f32(word << 16);
    case "e4m3x4":
      return e4m3(word & 0xff);
    case "s32":
      return word | 0;
    case "hex":
      return word >>> 0;
  }
}

export function textOf(word: number, format: Format): string {
  if (format === "s32") return String(word | 0).replace("-", "−");
  if (format === "hex") return `0x${(word >>> 0).toString(16).padStart(8, "0")}`;
  return numbersOf(word, format).map(short).join(" ");
}

/** Four significant digits at most. */
export function short(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+∞" : "−∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e5) return String(value).replace("-", "−");
  const size = Math.abs(value);
  const text = size >= 1e5 || size < 1e-3 ? value.toExponential(1) : value.toPrecision(3);
  return text
    .replace(/(\.\d*?)0+($|e)/, "$1$2")
    .replace(/\.($|e)/, "$1")
    .replaceAll("-", "−");
}
