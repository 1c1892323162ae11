import { describe, expect, test } from "vitest";
import { barLayout, barOf, cutsOf, LABEL_HEIGHT, labelEvery, requestAt, topFor } from "./bars";
import type { Work } from "./data";

describe("bars", () => {
  const layout = barLayout(456, 122, 4, 1000);

  test("are labelled as often as their labels have room", () => {
    expect([100, 20, 10, 0.3].map((column) => labelEvery(column, 14))).toEqual([1, 2, 4, 128]);
    expect(labelEvery(0.3, 33)).toBe(256); // "r2944" beside "r2816"
  });

  test("columns share the width, at most 150 wide, and leave room for labels", () => {
    expect(layout.column).toBe(100);
    expect(layout.plot.height).toBe(122 - 6 - LABEL_HEIGHT);
    expect(barLayout(2000, 122, 2, 1000).column).toBe(150);
  });

  test("narrow columns give up their gaps", () => {
    expect([4, 60, 300].map((requests) => barLayout(456, 122, requests, 10).gap)).toEqual([3, 1, 0]);
  });

  test("a bar stands on the ground and is as high as its length; the longest is cut at the top", () => {
    const bar = barOf(layout, 1, 500);
    expect(bar.height).toBe(50);
    expect(bar.y + bar.height).toBe(layout.plot.y + layout.plot.height);
    expect(bar.x).toBe(layout.plot.x + 100);
    expect(barOf(layout, 0, 5000).height).toBe(layout.plot.height);
    expect(barOf(layout, 0, 0).height).toBe(1); // an empty request can still be seen and pressed
  });

  test("a point lies in a request's column, or in none", () => {
    const { x } = layout.plot;
    expect([x - 1, x, x + 99, x + 100, x + 400].map((at) => requestAt(layout, 4, at))).toEqual([
      -1, 0, 0, 1, -1,
    ]);
  });

  test.each([0, 1, 15, 16, 100, 1000, 8192, 131072])(
    "the top is round and has room above %i tokens",
    (longest) => {
      const top = topFor(longest);
      expect(top).toBeGreaterThanOrEqual(Math.max(16, 1.15 * longest));
      expect(top).toBeLessThanOrEqual(Math.max(25, 1.6 * longest));
      expect(Number(top.toPrecision(2))).toBe(top);
    },
  );
});

test("cuts are where a unit of the first head block begins after token 0", () => {
  const work = {
    size: 5,
    request: [0, 0, 1, 0, 1],
    headBlock: [0, 0, 0, 1, 0],
    tokenStart: [0, 256, 0, 256, 512],
  } as unknown as Work;
  const cuts = cutsOf(work, 3);
  const of = (request: number) => [...cuts.items.slice(cuts.indptr[request], cuts.indptr[request + 1])];
  expect([of(0), of(1), of(2)]).toEqual([[1], [4], []]);
  expect([...cutsOf(null, 2).items]).toEqual([]);
});
