import { expect, test } from "vitest";
import { clampRange, panned, showing, span, tickStep, ticks, windowIn, zoomed } from "./range";

test("a range stays within its axis and is never narrower than the least", () => {
  expect(clampRange({ start: -10, end: 20 }, 100, 5)).toEqual({ start: 0, end: 30 });
  expect(clampRange({ start: 90, end: 130 }, 100, 5)).toEqual({ start: 60, end: 100 });
  expect(clampRange({ start: 50, end: 51 }, 100, 8)).toEqual({ start: 46.5, end: 54.5 });
  expect(clampRange({ start: -500, end: 500 }, 100, 5)).toEqual({ start: 0, end: 100 });
});

test("zooming keeps the pointer's place on screen", () => {
  const range = { start: 20, end: 60 };
  for (const factor of [0.5, 2, 3.7])
    for (const at of [20, 33, 60]) {
      const after = zoomed(range, factor, at);
      expect((at - after.start) / span(after)).toBeCloseTo((at - range.start) / span(range), 12);
      expect(span(after)).toBeCloseTo(span(range) * factor, 12);
    }
});

test("showing a place moves no more than it must, and leaves a tenth beyond it", () => {
  const range = { start: 100, end: 200 };
  expect(showing(range, 150)).toBe(range);
  expect(showing(range, range.start - 1e-12)).toBe(range); // but for rounding it is there
  expect(showing(range, 90)).toEqual(panned(range, -20));
  expect(showing(range, 220)).toEqual(panned(range, 30));
});

test("ticks are 1, 2 or 5 times a power of ten apart", () => {
  expect([0.03, 1, 1.1, 3, 7, 10, 4000].map(tickStep)).toEqual([0.05, 1, 2, 5, 10, 10, 5000]);
  expect(ticks({ start: 3, end: 21 }, 4)).toEqual([5, 10, 15, 20]);
});

test("a strip of the whole frames what is shown, but never more than that", () => {
  expect(windowIn({ start: 250, end: 500 }, 1000, 800)).toEqual({ from: 200, to: 400, framed: true });
  expect(windowIn({ start: 0, end: 1000 }, 1000, 800).framed).toBe(false);
  expect(windowIn({ start: 500, end: 502 }, 1000, 800).framed).toBe(false); // it would be three times as wide
});
