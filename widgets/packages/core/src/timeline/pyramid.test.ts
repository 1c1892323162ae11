import { expect, test } from "vitest";
import { finestBins, type Level, Pyramid } from "./pyramid";
import type { Spans } from "./spans";

/** Spans of 3 every 10 units, of two looks. */
const COUNT = 5000;
const SPANS: Spans = {
  size: COUNT,
  start: Float64Array.from({ length: COUNT }, (_, i) => 10 * i),
  end: Float64Array.from({ length: COUNT }, (_, i) => 10 * i + 3),
  look: Uint8Array.from({ length: COUNT }, (_, i) => (i < COUNT / 2 ? 1 : 2)),
  id: new Uint32Array(COUNT),
};
const LENGTH = 10 * COUNT;
const pyramid = new Pyramid(SPANS, LENGTH);
const total = ({ cover }: Level) => cover.reduce((sum, each) => sum + each, 0);

test("every level covers as much, with half as many bins of twice the width", () => {
  pyramid.levels.forEach((level, i) => {
    expect(total(level)).toBeCloseTo(3 * COUNT, 0);
    expect(level.width * level.cover.length).toBeCloseTo(LENGTH, 6);
    const finer = pyramid.levels[i - 1];
    if (finer) expect(level.cover.length).toBe(finer.cover.length / 2);
  });
});

test("a bin has the look that covers most of it", () => {
  const coarsest = pyramid.levels.at(-1) as Level;
  expect(coarsest.look[0]).toBe(1);
  expect(coarsest.look.at(-1)).toBe(2);
});

test("a view takes the coarsest level that it cannot distinguish from finer ones", () => {
  const finest = (pyramid.levels[0] as Level).width;
  expect(pyramid.levelFor(finest * 0.9)).toBeUndefined();
  for (const factor of [1, 1.9, 2, 5, 64])
    expect(pyramid.levelFor(finest * factor)?.width).toBeLessThanOrEqual(finest * factor);
  expect(pyramid.levelFor(finest * 4)?.width).toBe(finest * 4);
  expect(pyramid.levelFor(1e12)).toBe(pyramid.levels.at(-1));
});

test("bins are a power of two between 2^10 and 2^17", () => {
  expect([0, 100, 5000, 1e9].map(finestBins)).toEqual([1024, 1024, 4096, 131072]);
});
