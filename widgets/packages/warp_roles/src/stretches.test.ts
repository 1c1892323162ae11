import type { Spans, TimelineRow } from "@sglab/core";
import { smallLaunch } from "@sglab/launch/testing/small_launch";
import { expect, test } from "vitest";
import type { WarpTimeline } from "./model";
import { barsIn, issuerIn, summaryOf } from "./stretches";

function spans(...rows: [start: number, end: number, id: number][]): Spans {
  return {
    size: rows.length,
    start: Float64Array.from(rows, ([start]) => start),
    end: Float64Array.from(rows, ([, end]) => end),
    look: new Uint8Array(rows.length),
    id: Uint32Array.from(rows, ([, , id]) => id),
  };
}
const row = (lanes: Spans[], waits?: Spans) =>
  ({ label: "", title: "", group: "", lanes, waits, height: 20 }) as TimelineRow;

/** Two warps and the copies, in issue order: ids are events, waits and operations. */
const timeline = {
  model: {
    rows: [
      row([spans([0, 1, 0], [1, 2, 1], [2, 3, 2], [5, 6, 5], [7, 8, 7])]),
      row([spans([3, 4, 3], [4, 5, 4], [6, 7, 6])], spans([1, 3, 0])),
      row([spans([1, 3, 0]), spans([6, 8, 1])]),
    ],
  },
  subjects: [{ warp: 0 }, { warp: 1 }, { track: 0 }],
  rowOfWarp: [0, 1],
} as unknown as WarpTimeline;
const shown = { launch: smallLaunch(), timeline };

test("a stretch of a warp: kinds of instructions, and how much of it they cover", () => {
  const { did, count, busy, gap } = summaryOf(shown, { row: 0, start: 0, end: 8 });
  expect(did.map(({ text, count }) => [text, count])).toEqual([
    ["barrier", 3],
    ["async", 1],
    ["integer", 1],
  ]);
  expect([count, busy]).toEqual([5, 5]);
  expect(gap).toEqual({ start: 3, end: 5, next: 5 });
});

test("what reaches beyond the stretch is cut to it", () => {
  const { waits, waited, longest } = summaryOf(shown, { row: 1, start: 2, end: 4 });
  expect([waits, waited, longest]).toEqual([[{ text: "full[…]", count: 1, total: 1 }], 1, 0]);
});

test("a stretch of operations counts them and their bytes, on all lanes", () => {
  const { did, bytes, busy, gap } = summaryOf(shown, { row: 2, start: 0, end: 8 });
  expect(did).toEqual([
    { text: "mma", count: 4, total: 2 },
    { text: "copy", count: 1, total: 2 },
  ]);
  expect([bytes, busy]).toEqual([4096, 4]);
  expect(gap).toEqual({ start: 3, end: 6, next: 1 });
});

test("bars that touch a stretch, and the stretch that they fill", () => {
  expect(barsIn(shown, { row: 0, start: 1.5, end: 5.5 })).toEqual({
    count: 3,
    filled: { row: 0, start: 1, end: 6 },
  });
  expect(barsIn(shown, { row: 0, start: 3.5, end: 4.5 })).toEqual({
    count: 0,
    filled: { row: 0, start: 3.5, end: 4.5 },
  });
});

test("what the issuer of a late operation did in the gap before it", () => {
  expect(issuerIn(shown, { start: 0, end: 6, next: 1 })).toEqual({ warp: 1, wait: 0, executed: 2 });
});
