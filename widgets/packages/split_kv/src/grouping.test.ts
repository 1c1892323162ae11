import { expect, test } from "vitest";
import { groupItems } from "./grouping";

test("items are in their group in their order; those of none nowhere", () => {
  const group = [2, 0, -1, 2, 0, 2];
  const { indptr, items } = groupItems(group.length, 4, (item) => group[item] as number);
  const of = (g: number) => Array.from(items.subarray(indptr[g], indptr[g + 1]));
  expect([0, 1, 2, 3].map(of)).toEqual([[1, 4], [], [0, 3, 5], []]);
  expect(indptr[4]).toBe(5);
});
