import { describe, expect, test } from "vitest";
import { Tile } from "./model";
import type { Shown } from "./protocol";
import { labelsOf, reachOf } from "./reach";
import { cellLabels, elementRows, labelIn, ranges } from "./words";

const SHOWN: Shown = {
  asked: "",
  text: "(8,64):(64,1)",
  space: "smem",
  rows: 8,
  columns: 64,
  elementBits: 16,
  placeRows: 8,
  placeColumns: 64,
  parts: 1,
  element: "f16",
  order: "columns",
  orders: [],
  laneBytes: 16,
  laneBytesOffered: [16],
  takenBytes: 16,
  steps: ["", ""],
  passes: [32, 32],
  least: [4, 4],
  said: "",
};

/** Eight rows of 128 bytes; lanes go down the columns, 16 bytes each. `swizzle` moves chunks. */
function rows(swizzle: (row: number, chunk: number) => number): Tile {
  const size = 8 * 64;
  const cells = new Int32Array(6 * size);
  for (let i = 0; i < size; i++) {
    const [row, column] = [Math.floor(i / 64), i % 64];
    const chunk = Math.floor(column / 8);
    const number = chunk * 8 + row;
    cells.set([row * 64 + swizzle(row, chunk) * 8 + (column % 8)], i);
    cells[size + i] = number % 32;
    cells[2 * size + i] = -1;
    cells[4 * size + i] = Math.floor(number / 32);
    cells[5 * size + i] = Math.floor((number % 32) / 8);
  }
  return new Tile(SHOWN, cells);
}

describe("a tile whose rows are 128 bytes", () => {
  const plain = rows((_, chunk) => chunk);

  test("places and banks follow from the element's number", () => {
    const i = 3 * 64 + 9;
    expect([plain.row(i), plain.column(i), plain.placeRow(i), plain.placeColumn(i)]).toEqual([3, 9, 3, 9]);
    expect([plain.byte(i), plain.bank(i), plain.index(i)]).toEqual([402, 4, 75]);
    expect(plain.at(plain.place[i] as number)).toEqual([i]);
  });

  test("the other seven rows are in an element's way", () => {
    expect(plain.conflicts(3 * 64)).toEqual([0, 1, 2, 4, 5, 6, 7]);
    expect(plain.banksOf(0)).toMatchObject({ passes: 32, least: 4 });
    expect(Object.fromEntries(elementRows(plain, 3 * 64))["in its way"]).toBe(
      "▲ lanes 0–2, 4–7: other words of its banks",
    );
  });

  test("no lane is, with the swizzle of 128 bytes", () => {
    const swizzled = rows((row, chunk) => chunk ^ row);
    expect(swizzled.conflicts(3 * 64)).toEqual([]);
    expect(swizzled.banksOf(0)).toMatchObject({ passes: 4, least: 4 });
  });
});

test("places that several coordinates share name them all", () => {
  const cells = new Int32Array(6 * 4);
  const tile = new Tile({ ...SHOWN, rows: 2, columns: 2, takenBytes: 4 }, cells);
  expect(tile.at(0)).toEqual([0, 1, 2, 3]);
  expect(Object.fromEntries(elementRows(tile, 0))["the same place"]).toBe("3 other coordinates");
});

test("a register's element says its lane, register and bits", () => {
  const cells = Int32Array.from([0, 1, 0, 0, 2, 2, 0, 1, 0, 0, 0, 0]);
  const tile = new Tile(
    { ...SHOWN, space: "registers", rows: 1, columns: 2, placeRows: 32, parts: 2 },
    cells,
  );
  expect(cellLabels(tile, 1, "place")).toEqual(["L0 r2", "L0"]);
  expect(Object.fromEntries(elementRows(tile, 1)).register).toBe("2, bits 16–31");
});

test("narrow cells of one lane share a label, and their register where it is the same", () => {
  // two registers of lane 0, of two halves each; then one of lane 1
  const lane = [0, 0, 0, 0, 1, 1];
  const register = [0, 0, 1, 1, 0, 0];
  const zeros = lane.map(() => 0);
  const cells = Int32Array.from([...lane.keys(), ...lane, ...register, ...zeros, ...zeros, ...zeros]);
  const tile = new Tile(
    { ...SHOWN, space: "registers", rows: 1, columns: 6, placeRows: 32, parts: 2 },
    cells,
  );
  const line = {
    at: (column: number) => column,
    labels: (i: number) => cellLabels(tile, i, "place"),
    columns: 6,
  };
  const first = reachOf(tile, 1, 1, line);
  expect(first).toEqual({ first: 0, last: 3 });
  expect(labelsOf(first, line, false)).toEqual(["L0"]);
  const second = reachOf(tile, 5, 5, line);
  expect(second).toEqual({ first: 4, last: 5 });
  expect(labelsOf(second, line, false)).toEqual(["L1 r0", "L1"]);
});

test("where there are no banks, the menu of what cells say does not name them", () => {
  expect(labelIn("smem", "bank")).toBe("bank");
  expect(labelIn("registers", "bank")).toBe("owner");
  expect(labelIn("tmem", "bank")).toBe("owner");
  expect(labelIn("tmem", "index")).toBe("index");
});

test("a row that tensor memory keeps in one lane says which", () => {
  const zeros = [0, 0, 0];
  const cells = Int32Array.from([96, 97, 98, 32, 32, 32, ...zeros, ...zeros, ...zeros, ...zeros]);
  const shown: Shown = { ...SHOWN, space: "tmem", rows: 1, columns: 3, placeRows: 128, placeColumns: 3 };
  const tile = new Tile(shown, cells);
  const line = {
    at: (column: number) => column,
    labels: (i: number) => cellLabels(tile, i, "place"),
    columns: 3,
  };
  expect(cellLabels(tile, 1, "place")).toEqual(["32,1", "lane 32"]);
  expect(labelsOf(reachOf(tile, 1, 1, line), line, false)).toEqual(["lane 32"]);
});

test.each([
  [[], ""],
  [[3], "3"],
  [[0, 1, 2, 5, 7, 8], "0–2, 5, 7–8"],
] as const)("%j as ranges", (numbers, text) => {
  expect(ranges(numbers)).toBe(text);
});
