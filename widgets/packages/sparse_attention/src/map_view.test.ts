import { expect, test } from "vitest";
import { cellSize, wholeHeight } from "./map_view";

test("a map's cells are as wide as lets all of it be seen, and never too narrow to press", () => {
  expect(cellSize(89, 600, 480)).toBe(5);
  expect(cellSize(89, 340, 480)).toBe(3);
  expect(cellSize(89, 600, 200)).toBe(3);
  expect(cellSize(10, 600, 480)).toBe(14);
});

test("where a map is shown whole, nothing of it scrolls", () => {
  for (const [tokens, width] of [
    [89, 340],
    [20, 600],
    [300, 400],
  ] as const) {
    const height = wholeHeight(tokens, width);
    expect(tokens * cellSize(tokens, width, height)).toBeLessThanOrEqual(height);
    expect(cellSize(tokens, width, height)).toBe(cellSize(tokens, width, 10_000));
  }
});
