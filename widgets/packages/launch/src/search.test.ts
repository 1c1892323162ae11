import { expect, test } from "vitest";
import { Search } from "./search";
import { smallLaunch } from "./testing/small_launch";

test("goes from match to match, around both ends", () => {
  const search = new Search(smallLaunch());
  const forwards = [-1, 3, 7].map((index) => search.next("try_wait", index, 1)?.index);
  expect(forwards).toEqual([3, 7, 3]);
  const backwards = [7, 3].map((index) => search.next("try_wait", index, -1)?.index);
  expect(backwards).toEqual([3, 7]);
  expect(search.next("try_wait", 0, 1)).toEqual({ count: 2, number: 1, index: 3 });
});

test("all words must be found, in any order and case", () => {
  const search = new Search(smallLaunch());
  expect(search.next("TENSOR async", -1, 1)?.index).toBe(1);
  expect(search.next("tensor wgmma", -1, 1)).toBeUndefined();
});
