import { describe, expect, test } from "vitest";
import type { Recorded } from "./data";
import type { Plan } from "./merge";
import { nodeName, stepsOf } from "./steps";

// Two splits: tiles 0 and 1 of split 0, of which the second raises the maximum, tile 2 of split 1.
const TOPS = [1, 3, 2];
const recorded = {
  splits: 2,
  tiles: [
    { split: 0, start: 0, end: 64 },
    { split: 0, start: 64, end: 100 },
    { split: 1, start: 100, end: 128 },
  ],
  steps: [
    { first: 0, last: 1 },
    { first: 2, last: 2 },
  ],
  partialLse: [1.5, 2.5],
  state: (_: string, step: number) => ({
    top: TOPS[step],
    tileTop: TOPS[step],
    total: 5,
    tileTotal: 4,
    rescale: 0.25,
  }),
} as unknown as Recorded;
const plan = [[0, 1]] as unknown as Plan;
const shown = { recorded, formula: "online", plan, base: "e", selectedSplit: () => 1 };
const of = (lses: number[]) =>
  stepsOf({ ...shown, lseOf: (split: number) => lses[split] } as Parameters<typeof stepsOf>[0]);
const steps = of([1.5, 2.5]);

describe("steps", () => {
  test("four operations a tile, a partial a split, then the merges", () => {
    expect(steps.track.length).toBe(3 * 4 + 2 + 1);
    expect([steps.endOfTile(0), steps.endOfTile(1), steps.endOfSplit(0)]).toEqual([4, 8, 9]);
    expect([steps.endOfTile(2), steps.endOfSplit(1), steps.endOfMerge(0)]).toEqual([13, 14, 15]);
    expect([0, 1, 8, 9, 15].map((at) => steps.at(at))).toEqual([
      { kind: "start" },
      { kind: "tile", step: 0, phase: "scores" },
      { kind: "tile", step: 1, phase: "sum" },
      { kind: "partial", split: 0 },
      { kind: "merge", index: 0 },
    ]);
  });

  test("tiles, splits and merges are stops; a raised maximum is a mark, a split's first tile none", () => {
    const stops = steps.track.granularities.map((each) => each.stops);
    expect(stops).toEqual([undefined, [4, 8, 9, 13, 14, 15], [9, 14, 15]]);
    expect(steps.track.marks?.map(({ at }) => at)).toEqual([8, 9, 14, 15]);
  });

  test("a selected split has its tiles, its partial and the merges that take it", () => {
    expect(steps.track.eventsOfSelection?.()).toEqual([13, 14, 15]);
  });

  test("the LSE of a finished split is that of the partial which is merged, not always the kernel's", () => {
    expect(steps.track.describe(9)).toContain("LSE = 1.5 (natural) are its partial");
    expect(of([Number.POSITIVE_INFINITY, 2.5]).track.describe(9)).toContain("LSE = +inf (natural)");
  });

  test("each position is a sentence", () => {
    expect(steps.track.describe(0)).toBe("No score has arrived: m = −inf, O = 0.");
    expect(steps.track.describe(5)).toContain("Split 0, tokens 64 to 99: 36 scores");
    expect(steps.track.describe(6)).toContain("the maximum grows from");
    expect(steps.track.describe(9)).toContain("Split 0 is done");
    expect(steps.track.describe(15)).toBe("Merge 1 of 1: s0 with s1.");
  });
});

test("a tile of one token, and a merge of all at once, are said as one would", () => {
  const tiles = [
    { split: 0, start: 0, end: 1 },
    { split: 1, start: 1, end: 2 },
    { split: 2, start: 2, end: 3 },
  ];
  const three = { ...recorded, splits: 3, tiles, steps: tiles.map((_, i) => ({ first: i, last: i })) };
  const once = { recorded: three, formula: "online", plan: [[0, 1, 2]], base: "e", selectedSplit: () => 1 };
  const { track } = stepsOf(once as unknown as Parameters<typeof stepsOf>[0]);
  expect(track.describe(1)).toContain("Split 0, token 0: 1 score");
  expect(track.describe(track.length)).toBe("Merge 1 of 1: s0…s2 at once.");
});

test("a node is named by its leaves", () => {
  expect([[2], [0, 1], [0, 1, 2], [0, 2]].map(nodeName)).toEqual(["s2", "s0+s1", "s0…s2", "s0+s2"]);
});
