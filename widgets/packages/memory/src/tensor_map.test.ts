import { describe, expect, test } from "vitest";
import { boxBytes, boxChunks, extent, type MapFields, mapProblems } from "./tensor_map";

/** A matrix of 100 rows of 64 halves, read in boxes of 8 rows × 64. */
const MATRIX: MapFields = {
  dims: [64, 100],
  strides: [128],
  box: [64, 8],
  elementStrides: [1, 1],
  elementBits: 16,
  swizzle: 3,
};

test("a box counts its elements along every dimension, every n-th of them", () => {
  expect(boxBytes(MATRIX)).toBe(1024);
  expect(extent({ ...MATRIX, elementStrides: [1, 3] }, 1)).toBe(3);
  expect(extent({ ...MATRIX, elementStrides: [4, 1] }, 0)).toBe(64);
});

test("a box inside: 128B-swizzled in shared memory, row after row in global", () => {
  const chunks = boxChunks(MATRIX, [0, 16], 0x400);
  expect(chunks).toHaveLength(64);
  for (const { row, chunk, linear, address, global, inside } of chunks) {
    expect(linear).toBe(row * 128 + chunk * 16);
    expect(address).toBe(0x400 + row * 128 + (chunk ^ row) * 16);
    expect(global).toBe((16 + row) * 128 + chunk * 16);
    expect(inside).toBe(8);
  }
});

test("what is outside is filled, not read: rows after the last, columns before the first", () => {
  const last = boxChunks(MATRIX, [0, 96], 0);
  expect(last.filter(({ inside }) => inside === 0).map(({ row }) => row)).toEqual(
    [4, 5, 6, 7].flatMap((row) => Array(8).fill(row)),
  );
  const left = boxChunks(MATRIX, [-4, 0], 0).filter(({ row }) => row === 0);
  expect(left.map(({ inside }) => inside)).toEqual([4, 8, 8, 8, 8, 8, 8, 8]);
  expect(left[0]?.global).toBe(0);
  expect(boxChunks(MATRIX, [0, 96], 0)[32]?.global).toBeUndefined();
});

test("element strides skip rows", () => {
  const chunks = boxChunks({ ...MATRIX, elementStrides: [1, 4] }, [0, 0], 0);
  expect(chunks.filter(({ chunk }) => chunk === 0).map(({ global }) => global)).toEqual([0, 512]);
});

describe("what the driver refuses", () => {
  test("nothing about a right map", () => expect(mapProblems(MATRIX)).toEqual([]));
  test.each([
    [{ strides: [100] }, "globalStrides[0] = 100 bytes; expected a multiple of 16 below 2^40."],
    [{ box: [64, 257] }, "boxDim[1] = 257; expected 1 to 256."],
    [{ box: [4, 8] }, "boxDim[0] spans 8 bytes; expected a multiple of 16."],
    [{ swizzle: 1 }, "boxDim[0] spans 128 bytes; this swizzle allows 32."],
    [{ elementStrides: [1, 9] }, "elementStrides[1] = 9; expected 1 to 8."],
    [{ dims: [64, 0] }, "globalDim[1] = 0; expected 1 to 2^32."],
  ])("%o", (change, problem) => expect(mapProblems({ ...MATRIX, ...change })).toEqual([problem]));
});
