import { describe, expect, it } from "vitest";
import type { Recorded } from "./data";
import { selectionOf, splitOf } from "./selected";

const recorded = (order = "stored") =>
  ({
    question: { request: 2, order },
    splits: 3,
    tiles: [
      { split: 0, start: 0, end: 64 },
      { split: 0, start: 64, end: 100 },
      { split: 2, start: 100, end: 130 },
    ],
    steps: [{ first: 0, last: 1 }, undefined, { first: 2, last: 2 }],
  }) as unknown as Recorded;

describe("splitOf", () => {
  it("is the split that has the token, whatever number another planner gave it", () => {
    expect(splitOf(recorded(), { request: 2, token: 99, split: 2 })).toBe(0);
    expect(splitOf(recorded(), { request: 2, token: 100 })).toBe(2);
    expect(splitOf(recorded(), { request: 2, token: 130 })).toBeUndefined();
  });

  it("goes by the number where keys are in another order", () => {
    expect(splitOf(recorded("sorted"), { request: 2, token: 99, split: 1 })).toBe(1);
  });

  it("is none of another request, and none that the run does not have", () => {
    expect(splitOf(recorded(), { request: 1, split: 0 })).toBeUndefined();
    expect(splitOf(recorded(), { split: 3 })).toBeUndefined();
    expect(splitOf(recorded(), {})).toBeUndefined();
  });
});

describe("selectionOf", () => {
  it("names the tokens, so that others find them", () => {
    expect(selectionOf(recorded(), 0)).toEqual({ request: 2, split: 0, token: 0, tokens: 100 });
    expect(selectionOf(recorded(), 2)).toEqual({ request: 2, split: 2, token: 100, tokens: 30 });
  });

  it("leaves them out where a split has none, or keys are in another order", () => {
    expect(selectionOf(recorded(), 1)).toEqual({ request: 2, split: 1 });
    expect(selectionOf(recorded("sorted"), 0)).toEqual({ request: 2, split: 0 });
  });

  it("leads back to the split", () => {
    for (const split of [0, 2]) expect(splitOf(recorded(), selectionOf(recorded(), split))).toBe(split);
  });
});
