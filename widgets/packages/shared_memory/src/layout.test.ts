import { describe, expect, test } from "vitest";
import { parseElement, parseSmem } from "./data";
import { boxRow, elementAt, layoutOfDescriptor, layoutOfMap, layoutOfRows } from "./layout";

/** A K-major 128B tile of 64 rows × 64 halves at smem+0x400. */
const QUESTION = {
  bits64: 0x4000404000010040n,
  flavour: "tcgen05",
  element: "f16",
  operand: "A",
  rows: 64,
  k: 64,
  bits: 16,
  major: "K",
} as const;

describe("a descriptor's tile", () => {
  const layout = layoutOfDescriptor(QUESTION, 0x10000);

  test("has every chunk once, from its first line of 128 bytes to its last", () => {
    expect([layout.lines, layout.chunks, layout.pieces.length, layout.byAddress.size]).toEqual([
      64, 8, 512, 512,
    ]);
    expect([layout.start, layout.end]).toEqual([0x400, 0x400 + 64 * 128]);
    expect([layout.problems, layout.remarks]).toEqual([[], []]);
  });

  test("knows where each element is", () => {
    expect(elementAt(layout, 0, 0)?.address).toBe(0x400);
    expect(elementAt(layout, 1, 9)?.address).toBe(0x400 + 128 + ((1 ^ 1) * 16 + 2));
    expect(elementAt(layout, 3, 63)?.address).toBe(0x400 + 3 * 128 + (7 ^ 3) * 16 + 14);
    expect(elementAt(layout, 64, 0)).toBeUndefined();
    const all = new Set<number>();
    for (let row = 0; row < 64; row++)
      for (let k = 0; k < 64; k++) all.add(elementAt(layout, row, k)?.address ?? -1);
    expect(all.size).toBe(64 * 64);
  });

  test("says what would fault and what is read twice", () => {
    expect(layoutOfDescriptor(QUESTION, 0x1000).remarks).toEqual([
      "The operand reaches smem+0x23ff, past the CTA's 0x1000: the MMA would fault.",
    ]);
    const zeroStride = { ...QUESTION, bits64: QUESTION.bits64 & ~(0x3fffn << 32n) };
    expect(layoutOfDescriptor(zeroStride, 0x10000).remarks.join()).toContain("448 of 512 chunks");
  });

  test("is refused with the reason", () => {
    expect(layoutOfDescriptor({ ...QUESTION, bits64: 0n }, 0x10000).problems[0]).toContain("must be 1");
    expect(layoutOfDescriptor({ ...QUESTION, rows: 0 }, 0x10000).problems[0]).toContain("at least 1 × 1");
  });
});

test("a kernel's own permutation counts its rows from where it begins", () => {
  const layout = layoutOfRows(0x480, 4 * 256, 256, "f16", 16, "256B_rows");
  expect(layout.origin).toBe(0x480);
  for (const { line, chunk, address } of layout.pieces)
    expect(address).toBe(0x480 + 256 * line + 16 * (chunk ^ line));
});

test("a tensor map's box: its rows are coordinates, its problems are named", () => {
  const map = {
    dims: [64, 10, 3],
    strides: [128, 1280],
    box: [64, 4, 2],
    elementStrides: [1, 1, 1],
    elementBits: 16,
    swizzle: 3,
    element: "f16",
    coordinates: [0, 8, 1],
    base: 0x400,
  };
  const layout = layoutOfMap(map);
  expect([layout.lines, layout.pieces.length]).toEqual([8, 64]);
  expect([0, 3, 4, 7].map((line) => boxRow(map, line))).toEqual([
    [8, 1],
    [11, 1],
    [8, 2],
    [11, 2],
  ]);
  expect(layout.remarks).toEqual([
    "32 of 64 pieces of 16 bytes reach outside the tensor: they are filled in.",
  ]);
  expect(layoutOfMap({ ...map, base: 0x410 }).problems).toEqual([
    "The shared address 0x410 must be a multiple of 128.",
  ]);
});

test("what a reader types: an address, or an element", () => {
  expect(["smem+0x1a00", "0X10", " 64 ", "smem 12", "x"].map(parseSmem)).toEqual([
    0x1a00,
    16,
    64,
    12,
    undefined,
  ]);
  expect(["12, 40", "[12,40]", "12 40", "12"].map(parseElement)).toEqual([
    [12, 40],
    [12, 40],
    [12, 40],
    undefined,
  ]);
});
