import { expect, test } from "vitest";
import { levels } from "./scores_shapes";

test("an axis names 0 where it lies well between its ends", () => {
  expect(levels(-6.4, 6.1)).toEqual([-6.4, 0, 6.1]);
  expect(levels(-3, 1)).toEqual([-3, 0, 1]);
});

test("an axis names its middle where 0 would lie upon an end, or outside", () => {
  expect(levels(-0.5, 7.5)).toEqual([-0.5, 3.5, 7.5]);
  expect(levels(2, 6)).toEqual([2, 4, 6]);
});
