import { expect, test } from "vitest";
import { rounded } from "./history_chart";
import { planOf } from "./merge";
import { layoutOf } from "./merge_layout";
import { errorText, isBad, lse, number, top } from "./numbers";

test.each([
  [0, "0"],
  [1.23456, "1.235"],
  [-0.5, "−0.5"],
  [123456, "1.23e5"],
  [-1e-5, "−1.00e−5"],
  [Number.NEGATIVE_INFINITY, "−inf"],
  [Number.NaN, "NaN"],
])("%f is written %s", (value, text) => expect(number(value)).toBe(text));

test("a base-2 logit and a natural LSE, each in the base that is shown", () => {
  expect([top(10, "2"), top(10, "e")]).toEqual(["10", "6.931"]);
  expect([lse(1, "e"), lse(1, "2")]).toEqual(["1 (natural)", "1.443 (base 2)"]);
});

test("errors: percent where they are large, and NaN is bad", () => {
  expect([0, 1e-7, 0.0123, Number.POSITIVE_INFINITY].map(errorText)).toEqual([
    "0",
    "1.0e−7",
    "1.23 %",
    "inf",
  ]);
  expect([1e-3, 1e-2, Number.NaN].map(isBad)).toEqual([false, true, true]);
});

test("an axis never rounds before the decimal point", () => {
  expect([2310.6, 25.16, -0.39372].map(rounded)).toEqual([2311, 25.2, -0.394]);
});

test("the tree's boxes of one row never overlap and stay within the width", () => {
  for (const order of ["fold", "tree", "once"] as const)
    for (let leaves = 2; leaves <= 12; leaves++) {
      const { boxes } = layoutOf(planOf(order, leaves), leaves, 900);
      for (const box of boxes) {
        expect(box.x - box.wide / 2).toBeGreaterThanOrEqual(0);
        expect(box.x + box.wide / 2).toBeLessThanOrEqual(900);
      }
      for (const row of new Set(boxes.map((box) => box.row))) {
        const mine = boxes.filter((box) => box.row === row).sort((a, b) => a.x - b.x);
        for (const [i, box] of mine.slice(1).entries())
          expect(box.x - box.wide / 2).toBeGreaterThanOrEqual((mine[i]?.x ?? 0) + (mine[i]?.wide ?? 0) / 2);
      }
    }
});
