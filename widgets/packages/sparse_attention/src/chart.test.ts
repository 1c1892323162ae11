import { expect, test } from "vitest";
import { tickEvery } from "./chart";

test("ticks are round and at most six", () => {
  expect([4, 5, 45, 60, 128, 1024].map(tickEvery)).toEqual([1, 1, 10, 20, 50, 500]);
  for (let most = 1; most < 3000; most += 7)
    expect(Math.floor(most / tickEvery(most))).toBeLessThanOrEqual(5);
});
