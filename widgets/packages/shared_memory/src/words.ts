// Sentences about moments, chunks and swizzles.

import { type Row, whoName } from "@sglab/memory/parts";
import type { Code } from "@sglab/memory/protocol";
import { swizzleAddress, swizzlePeriod, swizzleWords } from "@sglab/memory/swizzle";
import { e4m3, f32, short } from "@sglab/memory/words";
import { float16 } from "@sglab/protocol";
import { KINDS, type Moments, smem, WRITTEN } from "./data";
import type { Layout, Piece } from "./layout";
import type { Tile } from "./protocol";

export interface Facts {
  roles: Record<string, string>;
  moments: Moments;
  code: Record<string, Code>;
  tiles: Tile[];
}

function whoAt({ moments, roles }: Facts, moment: number): string {
  return whoName(roles, moments.cta[moment] as number, moments.warp[moment] as number);
}

export function momentSentence(facts: Facts, moment: number): string {
  const { moments, tiles, code } = facts;
  const opcode = code[String(moments.pc[moment])]?.opcode ?? "";
  const Who = whoAt(facts, moment).replace("warp", "Warp");
  const [start, nbytes] = [moments.start[moment] as number, moments.bytes[moment] as number];
  const range = `${smem(start)} to ${smem(start + nbytes)}`;
  const carried = moments.carried[moment] as number;
  const done = carried
    ? ` Now ${carried === 1 ? "one operation" : `${carried} operations`} issued before ${carried === 1 ? "is" : "are"} carried out.`
    : "";
  switch (KINDS[moments.kind[moment] as number]) {
    case "copy": {
      const box = tiles[moments.tile[moment] as number];
      const at = box
        ? ` of the box at (${Array.from(moments.coordinates.subarray(moment * 5, moment * 5 + 5)).join(", ")})`
        : "";
      return `${Who} issues ${opcode}: ${nbytes.toLocaleString("en-US")} bytes${at}, ${range}.${done}`;
    }
    case "mma": {
      const names = [moments.tile[moment], moments.other[moment]]
        .map((id) => tiles[id as number])
        .filter((tile) => tile !== undefined)
        .map((tile) => `${tile.operand} at ${smem(tile.start)}`);
      return `${Who} issues ${opcode}, which reads ${names.join(" and ")}.${done}`;
    }
    case "ld":
      return `${Who} reads shared memory${nbytes ? `, ${range}` : ""}: ${opcode}.${done}`;
    case "st":
      return `${Who} writes shared memory${nbytes ? `, ${range}` : ""}: ${opcode}.${done}`;
    case "commit":
      return `${Who} closes a group of cp.async.${done}`;
    default:
      return `${Who} executes ${opcode}.${done}`;
  }
}

/** Bits of the elements that can be read as numbers. */
export const BITS: Record<string, number> = {
  ...{ f16: 16, bf16: 16, f32: 32, tf32: 32, f64: 64, e4m3: 8, e5m2: 8 },
  ...{ u8: 8, s8: 8, u16: 16, s16: 16, u32: 32, s32: 32, u64: 64, s64: 64 },
};

const INTEGER = /^[su]\d/;

/** What is read of 16 bytes: an element where it is known, else bytes of one word. */
export interface Held {
  /** "" where nothing says what it is. */
  element: string;
  /** Its first byte, and how many it has. */
  at: number;
  size: number;
  value: number | undefined;
}

/**
 * What each of 16 bytes is part of, where that differs: "f32|s32|f32|s32" names the words of an array of structs,
 * "s32|bf16,bf16,s8,|…" the bytes of a word that several share. [] of an element type.
 */
function partsOf(element: string): string[] {
  if (!element.includes("|")) return [];
  return element.split("|").flatMap((word) => (word.includes(",") ? word.split(",") : Array(4).fill(word)));
}

/** "f32|s32|f32|s32" of one type alone as well as of several. */
export function isStruct(element: string): boolean {
  return element.includes("|");
}

export function isReadable(element: string): boolean {
  return element in BITS || partsOf(element).some((part) => part in BITS);
}

/** "f32+s32" for a struct. */
export function elementName(element: string): string {
  const parts = partsOf(element);
  return parts.length ? [...new Set(parts)].map((part) => part || "?").join("+") : element;
}

/** Whether the mask has all bytes of a part. */
function isWhole(mask: number, { at, size }: Pick<Held, "at" | "size">): boolean {
  const all = ((1 << size) - 1) << at;
  return (mask & all) === all;
}

/** The elements in 16 bytes, or members of a struct and what lies between them. */
export function heldIn(bytes: ArrayLike<number>, element: string): Held[] {
  const parts = partsOf(element);
  if (!parts.length)
    return valuesOf(bytes, element).map((value, i, { length }) => heldAt(element, i, length, value));
  const held: Held[] = [];
  for (let at = 0; at < 16; ) {
    const part = parts[at] ?? "";
    const size = (BITS[part] ?? 0) / 8;
    const whole = size > 0 && at % size === 0 && parts.slice(at, at + size).every((other) => other === part);
    const next = whole
      ? { element: part, at, size, value: valuesOf(bytes, part)[at / size] }
      : unknownAt(parts, at);
    held.push(next);
    at += next.size;
  }
  return held;
}

function heldAt(element: string, i: number, count: number, value: number): Held {
  return { element, at: (i * 16) / count, size: 16 / count, value };
}

/** Bytes that are no whole element: up to the next part, or word. */
function unknownAt(parts: readonly string[], at: number): Held {
  let end = at + 1;
  while (end % 4 && parts[end] === parts[at]) end++;
  return { element: "", at, size: end - at, value: undefined };
}

/** The elements in 16 bytes as text: of a struct what nothing says in hexadecimal, "··" for what was never written. */
export function elementsText(bytes: ArrayLike<number>, element: string, mask = WRITTEN): string {
  const textOf = (one: Held): string => {
    if (!isWhole(mask, one)) return "··";
    if (one.value !== undefined) return short(one.value);
    return `0x${Array.from({ length: one.size }, (_, i) => hexByte(bytes[one.at + one.size - 1 - i])).join("")}`;
  };
  const texts: string[] = [];
  let before = -1;
  for (const one of heldIn(bytes, element)) {
    const word = Math.floor(one.at / 4);
    const text = textOf(one);
    // padding of a word is said once
    if (isStruct(element) && text === "··" && texts.at(-1) === "··" && word === before) continue;
    texts.push(text);
    before = word;
  }
  return texts.join("  ");
}

/** The numbers in 16 bytes: of those that were written. */
export function numbersIn(bytes: ArrayLike<number>, element: string, mask = WRITTEN): number[] {
  return writtenIn(bytes, element, mask).map(({ value }) => value as number);
}

/** The elements in 16 bytes that are known and were written. */
export function writtenIn(bytes: ArrayLike<number>, element: string, mask = WRITTEN): Held[] {
  return heldIn(bytes, element).filter((one) => one.value !== undefined && isWhole(mask, one));
}

/** A number in a cell: integers as they are, floats with two digits, unless all floats there are whole. */
export function cellNumber({ element, value = 0 }: Held, all: readonly Held[]): string {
  const whole =
    INTEGER.test(element) || all.every((one) => INTEGER.test(one.element) || Number.isInteger(one.value));
  if (whole && Math.abs(value) < 1e6) return String(value);
  if (Math.abs(value) >= 1e6) return value.toExponential(0).replace("+", "");
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(2);
}

/** 16 bytes as numbers of one type. */
function valuesOf(bytes: ArrayLike<number>, element: string): number[] {
  const at = (i: number) => bytes[i] ?? 0;
  const words = (size: number) => Array.from({ length: 16 / size }, (_, i) => i * size);
  const u16 = (i: number) => at(i) | (at(i + 1) << 8);
  const u32 = (i: number) => u16(i) | (u16(i + 2) << 16) | 0;
  switch (element) {
    case "f16":
      return words(2).map((i) => float16(u16(i)));
    case "bf16":
      return words(2).map((i) => f32(u16(i) << 16));
    case "f32":
    case "tf32":
      return words(4).map((i) => f32(u32(i)));
    case "u32":
      return words(4).map((i) => u32(i) >>> 0);
    case "s32":
      return words(4).map(u32);
    case "u16":
      return words(2).map(u16);
    case "s16":
      return words(2).map((i) => (u16(i) << 16) >> 16);
    case "s8":
      return words(1).map((i) => (at(i) << 24) >> 24);
    case "f64":
      return words(8).map((i) => f64(u32(i), u32(i + 4)));
    case "u64":
      return words(8).map((i) => (u32(i + 4) >>> 0) * 2 ** 32 + (u32(i) >>> 0));
    case "s64":
      return words(8).map((i) => u32(i + 4) * 2 ** 32 + (u32(i) >>> 0));
    case "e5m2":
      return words(1).map((i) => float16(at(i) << 8));
    case "e4m3":
      return words(1).map((i) => e4m3(at(i)));
    default:
      return words(1).map(at);
  }
}

const scratch = new DataView(new ArrayBuffer(8));

function f64(low: number, high: number): number {
  scratch.setInt32(0, high);
  scratch.setInt32(4, low);
  return scratch.getFloat64(0);
}

function hexByte(byte = 0): string {
  return byte.toString(16).padStart(2, "0");
}

/** "3c00 bc00 …" or "00 3f …": bytes of which nothing is known, as words, the highest byte first. */
export function hexWords(bytes: ArrayLike<number>, size: number): string {
  const word = (i: number) =>
    Array.from({ length: size }, (_, k) => hexByte(bytes[i + size - 1 - k])).join("");
  return Array.from({ length: 16 / size }, (_, i) => word(i * size)).join(" ");
}

export function pieceText(layout: Layout, piece: Piece): string {
  const per = 128 / layout.elementBits;
  const first = piece.chunk * per;
  return `${layout.down} ${piece.line}, ${layout.across} ${first}–${first + per - 1}`;
}

/** The swizzle at one address: what it moves where, and which bits of the address say so. */
export function swizzleRows(layout: Layout, address: number): Row[] {
  if (layout.swizzle === "none") return [["swizzle", "none: bytes are in address order"]];
  const place = address - layout.origin;
  const linear = swizzleAddress(layout.swizzle, place); // an exclusive-or undoes itself
  const [from, to] = [(linear >>> 4) & 7, (place >>> 4) & 7];
  const period = swizzlePeriod(layout.swizzle);
  const bits = Math.log2(period);
  const show = (value: number) => (value % period).toString(2).padStart(bits, "0");
  return [
    ["swizzle", `chunk ${from} of 128 bytes is at place ${to} = ${from} ^ ${from ^ to}`],
    ["low bits", `${swizzleWords(layout.swizzle)}: ${show(linear)} → ${show(place)}`],
  ];
}
