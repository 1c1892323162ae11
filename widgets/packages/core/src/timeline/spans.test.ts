import { describe, expect, test } from "vitest";
import { firstEndingAfter, firstStartingFrom, packLanes, pick, type Spans, spanAt } from "./spans";

function spans(...pairs: [number, number][]): Spans {
  return {
    size: pairs.length,
    start: Float64Array.from(pairs, ([start]) => start),
    end: Float64Array.from(pairs, ([, end]) => end),
    look: new Uint8Array(pairs.length),
    id: Uint32Array.from(pairs, (_, i) => i),
  };
}
const LINE = spans([0, 2], [4, 5], [10, 20]);

test("binary searches agree with counting", () => {
  for (let x = -1; x <= 21; x += 0.5) {
    expect(firstEndingAfter(LINE, x)).toBe([2, 5, 20].filter((end) => end <= x).length);
    expect(firstStartingFrom(LINE, x)).toBe([0, 4, 10].filter((start) => start < x).length);
  }
});

test("the span at a place is the one that covers it, or the nearest within reach", () => {
  expect([1, 4, 15].map((x) => spanAt(LINE, x, 0))).toEqual([0, 1, 2]);
  expect([3, 8, 20.5].map((x) => spanAt(LINE, x, 0))).toEqual([-1, -1, -1]);
  expect([2.5, 3.6, 8, 20.5].map((x) => spanAt(LINE, x, 2))).toEqual([0, 1, 2, 2]);
  expect(spanAt(LINE, 7, 1)).toBe(-1);
});

describe("lanes", () => {
  const ids = (lanes: Spans[]) => lanes.map(({ id }) => Array.from(id));

  test("are as few as overlapping spans need", () => {
    expect(ids(packLanes(spans([0, 4], [1, 2], [2, 6], [4, 5]), 9))).toEqual([
      [0, 3],
      [1, 2],
    ]);
  });

  test("never hold spans that overlap, however few there may be", () => {
    const many = spans(
      ...Array.from({ length: 40 }, (_, i): [number, number] => [i, i + 1 + ((i * 7) % 11)]),
    );
    for (const most of [1, 2, 3, 20]) {
      const lanes = packLanes(many, most);
      expect(lanes.length).toBeLessThanOrEqual(most);
      expect(
        ids(lanes)
          .flat()
          .sort((a, b) => a - b),
      ).toEqual(Array.from(many.id));
      for (const lane of lanes)
        for (let i = 1; i < lane.size; i++)
          expect(lane.start[i]).toBeGreaterThanOrEqual(lane.end[i - 1] as number);
    }
  });

  test("a picked span that begins too early begins when its predecessor ends", () => {
    const { start, end, id } = pick(spans([0, 5], [3, 4], [4, 9]), [0, 1, 2]);
    expect([Array.from(start), Array.from(end), Array.from(id)]).toEqual([
      [0, 5, 5],
      [5, 5, 9],
      [0, 1, 2],
    ]);
  });
});
