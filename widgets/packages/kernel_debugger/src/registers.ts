// Registers as they come: bytes of 32 lanes; and what people read: numbers in the base and type they choose.

import type { Range } from "@sglab/memory/cividis";
import { float16 } from "@sglab/protocol";
import type { RegisterRow, State } from "./protocol";

export type NumberFormat = "auto" | "hex" | "signed" | "unsigned" | "float";
export const LANES = 32;

export interface Register {
  name: string;
  type: string;
  /** Bytes per lane; 0 for predicates. */
  size: number;
  view: DataView;
  /** Whether its values, or that it lives, are new since the last stop. */
  changed: boolean;
}

export function readRegisters(
  { rows, bytes }: State["registers"],
  before: Map<string, DataView>,
): Register[] {
  const data = bytes.data as Uint8Array;
  let at = 0;
  return rows.map(([name, type, size]: RegisterRow) => {
    const length = size === 0 ? 4 : LANES * size;
    const view = new DataView(data.buffer, data.byteOffset + at, length);
    at += length;
    const changed = before.size > 0 && !same(before.get(name), view);
    return { name, type, size, view, changed };
  });
}

function same(a: DataView | undefined, b: DataView): boolean {
  if (!a || a.byteLength !== b.byteLength) return false;
  for (let i = 0; i < b.byteLength; i++) if (a.getUint8(i) !== b.getUint8(i)) return false;
  return true;
}

/** A lane's value as a number to compare and colour by; 64-bit integers lose their last bits here, and only here. */
export function numberOf(register: Register, lane: number, format: NumberFormat): number {
  const { view, size, type } = register;
  const at = lane * size;
  if (size === 0) return (view.getUint32(0, true) >>> lane) & 1;
  if (isFloat(type, size, format)) return floatAt(view, at, size, type);
  const signed = format === "signed" || (format === "auto" && type.startsWith("s"));
  return Number(integerAt(view, at, size, signed));
}

export function textOf(register: Register, lane: number, format: NumberFormat): string {
  const { view, size, type } = register;
  const at = lane * size;
  if (size === 0) return (view.getUint32(0, true) >>> lane) & 1 ? "true" : "false";
  if (isFloat(type, size, format)) return floatText(floatAt(view, at, size, type));
  const hex = format === "hex" || (format === "auto" && type.startsWith("b"));
  const signed = format === "signed" || (format === "auto" && type.startsWith("s"));
  const value = integerAt(view, at, size, signed && !hex);
  return hex ? `0x${value.toString(16).padStart(2 * Math.min(size, 16), "0")}` : value.toString();
}

function isFloat(type: string, size: number, format: NumberFormat): boolean {
  if (format === "float") return size >= 2 && size <= 8;
  return format === "auto" && (type.startsWith("f") || type === "bf16");
}

function integerAt(view: DataView, at: number, size: number, signed: boolean): bigint {
  switch (size) {
    case 1:
      return BigInt(signed ? view.getInt8(at) : view.getUint8(at));
    case 2:
      return BigInt(signed ? view.getInt16(at, true) : view.getUint16(at, true));
    case 4:
      return BigInt(signed ? view.getInt32(at, true) : view.getUint32(at, true));
    case 16:
      return (view.getBigUint64(at + 8, true) << 64n) | view.getBigUint64(at, true);
    default:
      return signed ? view.getBigInt64(at, true) : view.getBigUint64(at, true);
  }
}

export function floatAt(view: DataView, at: number, size: number, type: string): number {
  if (size === 8) return view.getFloat64(at, true);
  if (size === 4) return view.getFloat32(at, true);
  const bits = view.getUint16(at, true);
  return type === "bf16" ? widenBfloat(bits) : float16(bits);
}

const WORD = new DataView(new ArrayBuffer(4));

function widenBfloat(bits: number): number {
  WORD.setUint32(0, bits << 16);
  return WORD.getFloat32(0);
}

export function floatText(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+inf" : "−inf";
  if (value === 0) return Object.is(value, -0) ? "−0" : "0";
  const size = Math.abs(value);
  const text = size >= 1e6 || size < 1e-4 ? value.toExponential(3) : String(Number(value.toPrecision(5)));
  return text.replaceAll("-", "−");
}

/** The least and the greatest finite value of the lanes of `mask`. */
export function rangeOf(register: Register, mask: number, format: NumberFormat): Range {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (let lane = 0; lane < LANES; lane++) {
    const value = numberOf(register, lane, format);
    if (!((mask >>> lane) & 1) || !Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return { low, high };
}

/** What all lanes have in common: one value, a line through them, or a range. */
export function summary(register: Register, mask: number, format: NumberFormat): string {
  const lanes = Array.from({ length: LANES }, (_, lane) => lane).filter((lane) => (mask >>> lane) & 1);
  const first = lanes[0];
  if (first === undefined) return "";
  const texts = lanes.map((lane) => textOf(register, lane, format));
  if (texts.every((text) => text === texts[0])) return `= ${texts[0]}`;
  if (register.size === 0) return `${texts.filter((text) => text === "true").length} of ${lanes.length} true`;
  const values = lanes.map((lane) => numberOf(register, lane, format));
  const step = (values[1] as number) - (values[0] as number);
  const start = (values[0] as number) - step * first;
  const isLine = Number.isSafeInteger(step) && lanes.every((lane, i) => values[i] === start + step * lane);
  if (isLine && Number.isSafeInteger(start) && lanes.length > 2) {
    const slope = Math.abs(step) === 1 ? "lane" : `${Math.abs(step)}·lane`;
    const base = textOf(register, first, format);
    return first === 0 ? `= ${base} ${step < 0 ? "−" : "+"} ${slope}` : `steps of ${step} per lane`;
  }
  const known = values.filter((value) => !Number.isNaN(value));
  const short = (value: number) => {
    const lane = lanes[values.indexOf(value)] as number;
    return textOf(register, lane, format);
  };
  const nan = known.length < values.length ? `, ${values.length - known.length} NaN` : "";
  return known.length ? `${short(Math.min(...known))} … ${short(Math.max(...known))}${nan}` : "NaN";
}

/** %r2 before %r10. */
export function byName(a: string, b: string): number {
  const [prefixA, numberA] = split(a);
  const [prefixB, numberB] = split(b);
  return prefixA === prefixB ? numberA - numberB : prefixA < prefixB ? -1 : 1;
}

function split(name: string): [string, number] {
  const digits = /\d+$/.exec(name)?.[0] ?? "";
  return [name.slice(0, name.length - digits.length), Number(digits || 0)];
}
