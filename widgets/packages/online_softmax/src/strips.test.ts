import { expect, test } from "vitest";
import type { Recorded } from "./data";
import type { Registers } from "./registers";
import type { Result } from "./results";
import { stripsAt } from "./strips";

const TRUTH = new Float32Array([1, 2]);
const recorded = { splits: 2, truth: () => TRUTH } as unknown as Recorded;
const registers = (done: number, total = 4) =>
  ({ step: 0, done, total, o: new Float32Array([4, 10]) }) as unknown as Registers;
const result = (o: number[], truth: number[]) =>
  ({ computed: { o: new Float32Array(o) }, truth: { o: new Float32Array(truth) } }) as unknown as Result;
const results = [result([1, 1], [1, 1]), result([2, 2], [2, 3]), result([5, 5], [5, 4])];
const tile = { kind: "tile", step: 0, phase: "sum" } as const;
const values = (strips: ReturnType<typeof stripsAt>) =>
  strips.map((strip) => strip.values && [...strip.values]);

test("after a tile's sum the running O is divided by d and compared with float64", () => {
  const strips = stripsAt(recorded, results, tile, registers(4));
  expect(strips[1]?.label).toBe("O / d");
  expect(values(strips)).toEqual([
    [4, 10],
    [1, 2.5],
    [1, 2],
    [0, 0.5],
  ]);
});

test("before the sum, and where d is 0, there is no O to compare", () => {
  for (const now of [registers(3), registers(4, 0), undefined])
    expect(values(stripsAt(recorded, results, tile, now)).slice(1)).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
});

test("a partial is compared with float64 over its own keys, a merge with its own", () => {
  const partial = stripsAt(recorded, results, { kind: "partial", split: 1 }, registers(4));
  expect([partial[1]?.label, ...values(partial).slice(1)]).toEqual([
    "O of partial s1",
    [2, 2],
    [2, 3],
    [0, -1],
  ]);
  const merge = stripsAt(recorded, results, { kind: "merge", index: 0 }, undefined);
  expect([merge[1]?.label, ...values(merge).slice(1)]).toEqual(["O merged", [5, 5], [5, 4], [0, 1]]);
});

test("what is compared shares a scale", () => {
  const groups = stripsAt(recorded, results, tile, registers(4)).map(({ group }) => group);
  expect(groups).toEqual(["sum", "o", "o", "o"]);
});
