// Sentences about moments, chunks and swizzles.

import { type Row, whoName } from "@sglab/memory/parts";
import type { Code } from "@sglab/memory/protocol";
import { swizzleAddress, swizzlePeriod, swizzleWords } from "@sglab/memory/swizzle";
import { e4m3, f32, short } from "@sglab/memory/words";
import { float16 } from "@sglab/protocol";
import { KINDS, type Moments, smem } from "./data";
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

/** "f32|s32|f32|s32", the words of an array of structs, one by one; [] of an element type. */
function wordsOf(element: string): string[] {
  return element.includes("|") ? element.split("|") : [];
}

export function isReadable(element: string): boolean {
  return element in BITS || wordsOf(element).some((word) => word in BITS);
}

/** "f32+s32" for a struct. */
export function elementName(element: string): string {
  const words = wordsOf(element);
  return words.length ? [...new Set(words)].map((word) => word || "?").join("+") : element;
}

/** The elements in 16 bytes as text; of a struct, words of which nothing is said in hexadecimal. */
export function elementsText(bytes: ArrayLike<number>, element: string): string {
  const words = wordsOf(element);
  if (!words.length) return numbersText(numbersIn(bytes, element));
  const hex = hexWords(bytes, 4).split(" ");
  return words
    .map((word, i) => (word in BITS ? numbersText(wordNumbers(bytes, word, i)) : `0x${hex[i]}`))
    .filter((text) => text)
    .join("  ");
}

/** Those of its type that begin in a word. */
function wordNumbers(bytes: ArrayLike<number>, element: string, word: number): number[] {
  const per = 32 / (BITS[element] as number);
  const all = numbersIn(bytes, element);
  if (per < 1) return word % 2 ? [] : [all[word / 2] as number];
  return all.slice(word * per, word * per + per);
}

/** The numbers in 16 bytes. */
export function numbersIn(bytes: ArrayLike<number>, element: string): number[] {
  const members = wordsOf(element);
  if (members.length)
    return members.flatMap((member, i) => (member in BITS ? wordNumbers(bytes, member, i) : []));
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

/** "3c00 bc00 …" or "00 3f …": bytes of which nothing is known, as words, the highest byte first. */
export function hexWords(bytes: ArrayLike<number>, size: number): string {
  const word = (i: number) =>
    Array.from({ length: size }, (_, k) => (bytes[i + size - 1 - k] ?? 0).toString(16).padStart(2, "0")).join(
      "",
    );
  return Array.from({ length: 16 / size }, (_, i) => word(i * size)).join(" ");
}

export function numbersText(numbers: readonly number[]): string {
  return numbers.map(short).join("  ");
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
