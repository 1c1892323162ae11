import { expect, test } from "vitest";
import { clamp, panBy, reveal, scaleOf, WHOLE, zoomAt } from "./viewport";

const SIZE = { width: 1024, height: 384 };

test("without zoom all 512 columns and 128 lanes are there; at most, a cell fits its number", () => {
  expect(scaleOf(WHOLE, SIZE)).toEqual({ width: 2, height: 3 });
  const most = scaleOf({ ...WHOLE, zoom: 1 }, SIZE);
  expect(most.width).toBeCloseTo(64, 9);
  expect(most.height).toBeCloseTo(18, 9);
});

test("zooming keeps the cell under the pointer in place", () => {
  const view = clamp({ zoom: 0.4, column: 100, lane: 30 }, SIZE);
  const before = scaleOf(view, SIZE);
  const [x, y] = [400, 150];
  const after = zoomAt(view, SIZE, 0.3, x, y);
  const scale = scaleOf(after, SIZE);
  expect(after.column + x / scale.width).toBeCloseTo(view.column + x / before.width, 9);
  expect(after.lane + y / scale.height).toBeCloseTo(view.lane + y / before.height, 9);
});

test("a view never leaves the memory", () => {
  const { column, lane } = panBy({ zoom: 0.5, column: 500, lane: 120 }, SIZE, -5000, -5000);
  const scale = scaleOf({ zoom: 0.5, column, lane }, SIZE);
  expect(column + SIZE.width / scale.width).toBeCloseTo(512, 9);
  expect(lane + SIZE.height / scale.height).toBeCloseTo(128, 9);
  expect(panBy(WHOLE, SIZE, 300, 300)).toEqual(WHOLE);
});

test("revealing a cell that is visible moves nothing; another comes to the middle", () => {
  const view = clamp({ zoom: 1, column: 100, lane: 50 }, SIZE);
  expect(reveal(view, SIZE, 55, 105)).toEqual(view);
  expect(reveal(view, SIZE, 55, 300)).toEqual({ zoom: 1, column: 300 - 8, lane: 50 });
});
