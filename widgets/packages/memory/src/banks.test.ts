import { describe, expect, test } from "vitest";
import { bankSentence, bankUse } from "./banks";

const ALL = 0xffffffff;
const every = (bytes: number) => Array.from({ length: 32 }, (_, lane) => lane * bytes);

describe("4 bytes a lane", () => {
  test.each([
    [4, 1],
    [8, 2],
    [12, 1],
    [16, 4],
    [128, 32],
    [132, 1],
  ])("a stride of %i bytes takes %i passes", (stride, passes) => {
    expect(bankUse(every(stride), ALL, 4)).toMatchObject({ passes, least: 1 });
  });

  test("lanes that want the same word share it", () => {
    expect(bankUse(every(0), ALL, 4).passes).toBe(1);
    expect(
      bankUse(
        every(128).map((address) => address % 256),
        ALL,
        4,
      ).passes,
    ).toBe(2);
  });

  test("lanes that take no part use no bank", () => {
    expect(bankUse(every(128), 0b101, 4).passes).toBe(2);
    expect(bankUse(every(128), 0, 4)).toEqual({ phases: [], passes: 0, least: 0 });
  });
});

test("lanes of an atomic take turns at a word", () => {
  const same = bankUse(every(0), ALL, 4, true);
  expect(same).toMatchObject({ passes: 32, least: 1 });
  expect(bankSentence(same)).toBe(
    "32 lanes change the same word one after the other: 32 passes instead of 1.",
  );
  const two = bankUse(
    every(128).map((address) => address % 256),
    ALL,
    4,
    true,
  );
  expect(two).toMatchObject({ passes: 32, least: 1 });
  expect(two.phases[0]?.banks[0]).toMatchObject({ words: [0, 32], served: 32 });
  expect(bankUse(every(4), ALL, 4, true)).toMatchObject({ passes: 1, least: 1 });
  const apart = bankUse(every(128), ALL, 4, true);
  expect(bankSentence(apart)).toBe("A 32-way bank conflict: 32 passes instead of 1.");
});

test("8 bytes a lane go by half warps, 16 by quarters", () => {
  expect(bankUse(every(8), ALL, 8)).toMatchObject({ passes: 2, least: 2 });
  expect(bankUse(every(16), ALL, 16)).toMatchObject({ passes: 4, least: 4 });
});

test("rows of 128 bytes, read 16 bytes a lane: 8 ways without a swizzle, none with 128B", () => {
  const column = every(128);
  const swizzled = column.map((address, row) => address + 16 * (row % 8));
  expect(bankUse(column, ALL, 16)).toMatchObject({ passes: 32, least: 4 });
  expect(bankUse(swizzled, ALL, 16)).toMatchObject({ passes: 4, least: 4 });
  expect(bankSentence(bankUse(column, ALL, 16))).toMatch(/^An 8-way bank conflict: 32 passes instead of 4/);
  expect(bankSentence(bankUse(swizzled, ALL, 16))).toMatch(/^No bank conflict: 4 passes/);
});
