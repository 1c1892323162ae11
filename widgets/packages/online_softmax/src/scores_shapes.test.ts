import { expect, test } from "vitest";
import { levels, stems } from "./scores_shapes";

test("an axis names 0 where it lies well between its ends", () => {
  expect(levels(-6.4, 6.1)).toEqual([-6.4, 0, 6.1]);
  expect(levels(-3, 1)).toEqual([-3, 0, 1]);
});

test("an axis names its middle where 0 would lie upon an end, or outside", () => {
  expect(levels(-0.5, 7.5)).toEqual([-0.5, 3.5, 7.5]);
  expect(levels(2, 6)).toEqual([2, 4, 6]);
});

test("where several keys share a pixel, its stem shows the smallest and the largest of them", () => {
  const scores = [3, -4, 1, Number.NEGATIVE_INFINITY, -2, -1, Number.NEGATIVE_INFINITY];
  const y = (score: number) => 10 - score;
  expect(stems(scores, 0, 7, (key) => Math.floor(key / 2), y, 10)).toBe(
    "M0.5,7.0V14.0M1.5,9.0V10.0M2.5,10.0V12.0",
  );
});
