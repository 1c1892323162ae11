import { swizzleAddress } from "@sglab/memory/swizzle";
import { describe, expect, test } from "vitest";
import { KINDS, type Moments, smem } from "./data";
import type { Layout } from "./layout";
import type { Access, Tile } from "./protocol";
import { chunkRuns, chunksOf, eventsOf, granularitiesOf, marksOf, touchedBy } from "./track";
import {
  cellNumber,
  elementName,
  elementsText,
  type Facts,
  heldIn,
  hexWords,
  isReadable,
  momentSentence,
  numbersIn,
  pieceText,
  swizzleRows,
} from "./words";

type Made = Partial<Record<"tile" | "other" | "start" | "bytes" | "carried", number>> & {
  kind: (typeof KINDS)[number];
  coordinates?: number[];
};

const TILES = [
  { start: 1024, bytes: 4096, operand: "A" },
  { start: 8192, bytes: 2048, operand: "B" },
] as Tile[];

function facts(made: Made[]): Facts {
  const column = (of: (one: Made) => number) => Int32Array.from(made, of);
  const moments: Moments = {
    length: made.length,
    position: column((one) => made.indexOf(one)),
    cta: column(() => 2),
    warp: column(() => 3),
    pc: column(() => 9),
    kind: column(({ kind }) => KINDS.indexOf(kind)),
    tile: column(({ tile = -1 }) => tile),
    other: column(({ other = -1 }) => other),
    start: column(({ start = 0 }) => start),
    bytes: column(({ bytes = 0 }) => bytes),
    carried: column(({ carried = 0 }) => carried),
    coordinates: Int32Array.from(made.flatMap(({ coordinates = [0, 0, 0, 0, 0] }) => coordinates)),
  };
  const code = { 9: { opcode: "the.opcode", line: 1, text: "", source: "" } };
  return { roles: { "2 3": "load" }, moments, code, tiles: TILES };
}

describe("a moment's sentence", () => {
  const say = (one: Made) => momentSentence(facts([one]), 0);

  test("of a copy says how much, which box and where to", () => {
    expect(say({ kind: "copy", tile: 0, start: 1024, bytes: 4096, coordinates: [64, 8, 0, 0, 0] })).toBe(
      `Warp 3 (load) of CTA 2 issues the.opcode: 4,096 bytes of the box at (64, 8, 0, 0, 0), ${smem(1024)} to ${smem(5120)}.`,
    );
  });

  test("of an MMA names the operands that are in shared memory", () => {
    expect(say({ kind: "mma", tile: 0, other: 1 })).toContain(
      `reads A at ${smem(1024)} and B at ${smem(8192)}.`,
    );
    expect(say({ kind: "mma", other: 1 })).toContain(`reads B at ${smem(8192)}.`);
  });

  test("says what is carried out now", () => {
    expect(say({ kind: "wait", carried: 1 })).toMatch(/Now one operation issued before is carried out\.$/);
    expect(say({ kind: "commit", carried: 2 })).toMatch(/Now 2 operations issued before are carried out\.$/);
    expect(say({ kind: "st", start: 16, bytes: 4 })).toBe(
      `Warp 3 (load) of CTA 2 writes shared memory, ${smem(16)} to ${smem(20)}: the.opcode.`,
    );
  });
});

describe("the numbers in 16 bytes", () => {
  const bytes = (view: ArrayBufferView) => new Uint8Array(view.buffer);

  test("are as many as fit, of their type", () => {
    expect(numbersIn(bytes(new Float32Array([1, -2.5, 0, 3])), "f32")).toEqual([1, -2.5, 0, 3]);
    expect(numbersIn(bytes(new Uint32Array([0, 1, 2 ** 31, 2 ** 32 - 1])), "u32")).toEqual([
      0,
      1,
      2 ** 31,
      2 ** 32 - 1,
    ]);
    expect(numbersIn(bytes(new Int32Array([0, -1, 2 ** 30, -(2 ** 31)])), "s32")).toEqual([
      0,
      -1,
      2 ** 30,
      -(2 ** 31),
    ]);
    const halves = new Uint16Array([0x3c00, 0xc000, 0, 0, 0, 0, 0, 0x7c00]);
    expect(numbersIn(bytes(halves), "f16")).toEqual([1, -2, 0, 0, 0, 0, 0, Number.POSITIVE_INFINITY]);
    const brains = new Uint16Array([0x3f80, 0xc040, 0, 0, 0, 0, 0, 0]);
    expect(numbersIn(bytes(brains), "bf16").slice(0, 2)).toEqual([1, -3]);
    expect(numbersIn(Uint8Array.from([0x38, 0xc0]), "e4m3").slice(0, 2)).toEqual([1, -2]);
    expect(numbersIn(Uint8Array.from([255, 127]), "s8").slice(0, 2)).toEqual([-1, 127]);
    expect(numbersIn(bytes(new Uint16Array([0xffff, 1, 0, 0, 0, 0, 0, 0])), "s16").slice(0, 2)).toEqual([
      -1, 1,
    ]);
    expect(numbersIn(bytes(new BigInt64Array([-5n, 1n << 40n])), "s64")).toEqual([-5, 2 ** 40]);
    expect(numbersIn(bytes(new BigUint64Array([5n, 1n << 63n])), "u64")).toEqual([5, 2 ** 63]);
    expect(numbersIn(bytes(new Float64Array([1.5, -2])), "f64")).toEqual([1.5, -2]);
    expect(numbersIn(Uint8Array.from([0x3c, 0xc0]), "e5m2").slice(0, 2)).toEqual([1, -2]);
    expect(hexWords(bytes(new Uint32Array([1, 0xdeadbeef, 0, 0])), 4)).toBe(
      "00000001 deadbeef 00000000 00000000",
    );
    const struct = new Uint32Array([0x3f800000, 7, 0xc0000000, 9]);
    expect(numbersIn(bytes(struct), "f32|s32|f32|")).toEqual([1, 7, -2]);
    expect(elementsText(bytes(struct), "f32|s32|f32|").split(/\s+/)).toEqual(["1", "7", "−2", "0x00000009"]);
    expect(numbersIn(bytes(new Float64Array([1.5, 2])), "f64|f64|s32|u16")).toEqual([1.5, 0, 0, 0x4000]);
    expect(elementName("f32|s32|f32|")).toBe("f32+s32+?");
    expect(elementName("s32|bf16,bf16,s8,|s32|bf16,bf16,s8,")).toBe("s32+bf16+s8+?");
    expect(numbersIn(Uint8Array.from([255]), "b8")).toHaveLength(16);
  });
});

test("a struct has each member by its own type, whatever bytes it has; what nothing says in hexadecimal", () => {
  const struct = new DataView(new ArrayBuffer(16));
  struct.setInt32(0, 3, true);
  struct.setUint16(4, 0x3fc0, true); // 1.5
  struct.setInt8(6, -2);
  struct.setUint8(7, 0xab);
  struct.setFloat64(8, 2.25, true);
  const bytes = new Uint8Array(struct.buffer);
  const element = "s32|bf16,bf16,s8,|f64|f64";
  expect(isReadable(element)).toBe(true);
  expect(heldIn(bytes, element)).toEqual([
    { element: "s32", at: 0, size: 4, value: 3 },
    { element: "bf16", at: 4, size: 2, value: 1.5 },
    { element: "s8", at: 6, size: 1, value: -2 },
    { element: "", at: 7, size: 1, value: undefined },
    { element: "f64", at: 8, size: 8, value: 2.25 },
  ]);
  expect(elementsText(bytes, element).split(/\s+/)).toEqual(["3", "1.5", "−2", "0xab", "2.25"]);
  // half of what a type needs is none of it
  expect(elementsText(bytes, "s32||f64|").split(/\s+/)).toEqual([
    "3",
    "0xabfe3fc0",
    "0x00000000",
    "0x40020000",
  ]);
});

test("of members that were never written nothing is said", () => {
  const bytes = Uint8Array.from([3, 0, 0, 0, 9, 9, 9, 9, 0x80, 0x3f, 9, 9, 5, 9, 9, 9]);
  expect(elementsText(bytes, "s32||bf16,bf16,,|s8,,,", 0x130f).split(/\s+/)).toEqual([
    "3",
    "··",
    "1",
    "··",
    "5",
    "··",
  ]);
  expect(numbersIn(bytes, "s32||bf16,bf16,,|s8,,,", 0x130f)).toEqual([3, 1, 5]);
  expect(elementsText(bytes, "s32", 0x130f).split(/\s+/)).toEqual(["3", "··", "··", "··"]);
});

test("a cell has integers as such, also beside floats, and floats with two digits", () => {
  const texts = (...numbers: [string, number][]) =>
    numbers
      .map(([element, value]) => ({ element, at: 0, size: 4, value }))
      .map((one, _, all) => cellNumber(one, all));
  expect(texts(["s32", 3], ["f32", 1.25])).toEqual(["3", "1.3"]);
  expect(texts(["f32", 3], ["f32", 1.25])).toEqual(["3.0", "1.3"]);
  expect(texts(["f32", 3], ["f32", 4])).toEqual(["3", "4"]);
  expect(texts(["s32", -7], ["f32", 2])).toEqual(["-7", "2"]);
});

test("a piece is a line and the elements that its 16 bytes hold", () => {
  const layout = { down: "row", across: "k", elementBits: 16 } as Layout;
  expect(pieceText(layout, { line: 5, chunk: 3 } as never)).toBe("row 5, k 24–31");
  expect(pieceText({ ...layout, elementBits: 8 } as Layout, { line: 5, chunk: 3 } as never)).toBe(
    "row 5, k 48–63",
  );
});

describe("the swizzle at an address", () => {
  test("says which chunk is at which place, as the hardware moves it", () => {
    const layout = { swizzle: "128B", origin: 1024 } as Layout;
    const [line, chunk] = [3, 5];
    const place = swizzleAddress("128B", line * 128 + chunk * 16);
    const rows = Object.fromEntries(swizzleRows(layout, 1024 + place));
    expect(rows.swizzle).toBe(`chunk ${chunk} of 128 bytes is at place ${chunk ^ line} = ${chunk} ^ ${line}`);
    expect(rows["low bits"]).toMatch(/: 0111010000 → 0111100000$/); // 464 and 480
  });

  test("is none where bytes are in order", () => {
    expect(swizzleRows({ swizzle: "none", origin: 0 } as Layout, 64)).toEqual([
      ["swizzle", "none: bytes are in address order"],
    ]);
  });
});

describe("steps", () => {
  const made = facts([
    { kind: "copy", tile: 0, start: 1024, bytes: 4096 },
    { kind: "ld", start: 2048, bytes: 512 },
    { kind: "mma", tile: 0, other: 1 },
  ]);

  test("stop after the moments of their kind; kinds that a launch lacks are left out", () => {
    const stops = granularitiesOf(made.moments).map(({ id, stops }) => [id, stops && Array.from(stops)]);
    expect(stops).toEqual([
      ["event", undefined],
      ["access", [2]],
      ["copy", [1]],
      ["mma", [3]],
    ]);
  });

  test("have marks on the slider: at copies, or at groups of them, or where what is done changes", () => {
    const at = (...kinds: (typeof KINDS)[number][]) =>
      marksOf(facts(kinds.map((kind) => ({ kind }))).moments).map(({ at, label }) => [at, label]);
    expect(at("copy", "ld", "copy")).toEqual([
      [1, "copy"],
      [3, "copy"],
    ]);
    expect(at("st", "commit", "ld", "wait")).toEqual([
      [2, "commit or wait"],
      [4, "commit or wait"],
    ]);
    expect(at("st", "st", "ld", "ld", "st")).toEqual([
      [3, "ld"],
      [5, "st"],
    ]);
  });

  test("of an address are those whose bytes or tiles hold its chunk; of a tile, those that use it", () => {
    const of = (address: number | undefined, tile: number) =>
      Array.from(eventsOf(made.moments, address, tile, TILES) ?? [-1]);
    expect(of(2048, -1)).toEqual([1, 2, 3]);
    expect(of(1024, -1)).toEqual([1, 3]);
    expect(of(2560, -1)).toEqual([1, 3]); // just after the load
    expect(of(8192, -1)).toEqual([3]);
    expect(of(undefined, 1)).toEqual([3]);
    expect(of(undefined, -1)).toEqual([-1]);
  });

  test("touched the bytes of an access, or of the tiles that were used", () => {
    expect(touchedBy(made, 0)).toEqual([]);
    expect(touchedBy(made, 2)).toEqual([[2048, 2560]]);
    expect(touchedBy(made, 3)).toEqual([
      [1024, 5120],
      [8192, 10240],
    ]);
  });
});

describe("the chunks of an access", () => {
  const access = (addresses: number[], lanes: number, bytes: number) =>
    chunkRuns({ addresses, lanes, bytes } as Access);

  test("run together where lanes are neighbours, in whatever order", () => {
    expect(access([24, 4, 0, 16], 0b1111, 4)).toEqual([[0, 32]]);
    expect(access([0, 32], 0b11, 16)).toEqual([
      [0, 16],
      [32, 48],
    ]);
  });

  test("are whole ones, all those that an access across a border touches", () => {
    expect(access([12], 1, 8)).toEqual([[0, 32]]);
    expect(chunksOf(0, 32)).toEqual([0, 16]);
  });

  test("are of active lanes alone, the last one too", () => {
    const addresses = Array.from({ length: 32 }, (_, lane) => lane * 64);
    expect(access(addresses, 0x80000001 | 0, 4)).toEqual([
      [0, 16],
      [31 * 64, 31 * 64 + 16],
    ]);
  });
});
