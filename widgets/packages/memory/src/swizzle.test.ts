import { describe, expect, test } from "vitest";
import {
  ROW_SWIZZLES,
  SWIZZLES,
  type Swizzle,
  swizzleAddress,
  swizzleLabel,
  swizzlePeriod,
  swizzleSpan,
} from "./swizzle";

const ALL: readonly Swizzle[] = [...SWIZZLES, ...ROW_SWIZZLES];
/** Where the 16-byte chunk of a row is, as a number of chunks from the row's start. */
const chunk = (swizzle: Swizzle, row: number, column: number) => {
  const span = swizzleSpan(swizzle);
  return (swizzleAddress(swizzle, row * span + column * 16) - row * span) / 16;
};

test("128B: chunk c of row r is at c ^ (r mod 8)", () => {
  for (let row = 0; row < 32; row++)
    for (let column = 0; column < 8; column++) expect(chunk("128B", row, column)).toBe(column ^ (row % 8));
});

test("64B permutes two rows alike, 32B four", () => {
  const rows = (swizzle: Swizzle, columns: number[]) =>
    [0, 1, 2, 3, 4, 5, 6, 7].map((row) => columns.map((column) => chunk(swizzle, row, column)).join(""));
  expect(rows("64B", [0, 1, 2, 3])).toEqual(["0123", "0123", "1032", "1032", "2301", "2301", "3210", "3210"]);
  expect(rows("32B", [0, 1])).toEqual(["01", "01", "01", "01", "10", "10", "10", "10"]);
});

test("atoms of 32 and 64 bytes keep their chunks together", () => {
  for (let address = 0; address < 4096; address++) {
    expect(swizzleAddress("128B_atom_32B", address) % 32).toBe(address % 32);
    expect(swizzleAddress("128B_atom_64B", address) % 64).toBe(address % 64);
  }
  expect(swizzleAddress("128B_atom_32B", 128)).toBe(128 + 32);
  expect(swizzleAddress("128B_atom_32B_flip_8B", 128)).toBe(128 + 32 + 8);
});

test("rows wider than the hardware's swizzles: the chunk's low three bits turn with the row", () => {
  for (const swizzle of ROW_SWIZZLES)
    for (let row = 0; row < 8; row++) expect(chunk(swizzle, row, 9)).toBe(9 ^ row);
  expect(ROW_SWIZZLES.map(swizzleSpan)).toEqual([256, 512, 1024]);
});

describe.each(ALL)("%s", (swizzle) => {
  const period = swizzlePeriod(swizzle);

  test("is a permutation of every period", () => {
    const seen = new Set(Array.from({ length: period }, (_, address) => swizzleAddress(swizzle, address)));
    expect(seen.size).toBe(period);
    expect(Math.max(...seen)).toBe(period - 1);
  });

  test("undoes itself", () => {
    for (let address = 0; address < 2 * period; address++)
      expect(swizzleAddress(swizzle, swizzleAddress(swizzle, address))).toBe(address);
  });

  test("repeats after its period, and not after half of it", () => {
    const moved = (address: number) => swizzleAddress(swizzle, address) - address;
    const shifts = Array.from({ length: period }, (_, address) => moved(address));
    expect(Array.from({ length: period }, (_, address) => moved(address + period))).toEqual(shifts);
    if (swizzle !== "none") expect(shifts.slice(period / 2)).not.toEqual(shifts.slice(0, period / 2));
  });

  test("moves nothing out of its row", () => {
    const span = swizzleSpan(swizzle);
    for (let address = 0; address < period; address++)
      expect(Math.floor(swizzleAddress(swizzle, address) / span)).toBe(Math.floor(address / span));
  });
});

test("eight rows of one column use all 32 banks under 128B, and four of them without", () => {
  const banks = (swizzle: Swizzle) =>
    new Set([0, 1, 2, 3, 4, 5, 6, 7].map((row) => (swizzleAddress(swizzle, row * 128) % 128) / 16));
  expect(banks("128B").size).toBe(8);
  expect(banks("none").size).toBe(1);
});

test("a menu's label names the hardware's swizzles and describes all", () => {
  expect(swizzleLabel("128B")).toBe("128B swizzle: bits 4–6 ^= bits 7–9");
  expect(swizzleLabel("256B_rows")).toBe("chunk ^= row mod 8 in rows of 256 B: bits 4–6 ^= bits 8–10");
  expect(swizzleLabel("none")).toBe("nothing moves");
});
