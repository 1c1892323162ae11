import { expect, test } from "vitest";
import { cellSize, labelOf, leastHeight, usedHeight, wholeHeight } from "./map_view";
import { shadeOf } from "./shades";

test("a map's cells are as wide as lets all of it be seen, and never too narrow to press", () => {
  expect(cellSize(89, 600, 480)).toBe(5);
  expect(cellSize(89, 340, 480)).toBe(3);
  expect(cellSize(89, 600, 200)).toBeCloseTo(180 / 89);
  expect(cellSize(256, 400, 400)).toBeCloseTo(364 / 256);
  expect(cellSize(256, 340, 400)).toBeCloseTo(304 / 256);
  expect(cellSize(256, 290, 400)).toBe(3);
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
  expect(usedHeight(77, 484, 345)).toBe(20 + 77 * 4);
  expect(usedHeight(256, 600, leastHeight(256))).toBe(leastHeight(256));
});

test("equal factors of probability are equal steps of the common colour scale", () => {
  const lightness = (probability: number) => Number(shadeOf(probability).match(/\d+/g)?.[1]);
  const all = [0.001, 0.01, 0.1, 1].map(lightness);
  for (let i = 1; i < all.length; i++)
    expect((all[i] as number) - (all[i - 1] as number)).toBeGreaterThan(40);
  expect(shadeOf(0)).toBe(shadeOf(0.001));
  expect(shadeOf(1)).toBe("rgb(253 231 55)");
});

test("cells with room are named, others have positions, none beside the selected query's", () => {
  const texts = ["a", " ", "catch"];
  expect(labelOf(texts, 1, 12, 0)).toBe("␣");
  expect(labelOf(texts, 2, 12, 0)).toBe("ca");
  expect(labelOf(texts, 2, 11)).toBe("ca");
  expect(labelOf(texts, 2, 7)).toBe(""); // two letters are wider than the column: positions instead
  expect(labelOf(["a", "␣", "c"], 2, 7)).toBe("c");
  expect(labelOf(["0", "7", "14"], 2, 12)).toBe("14");
  expect(["0", "7", "108"].map((_, at, ids) => labelOf(ids, at, 12, 0))).not.toContain("10"); // another token's id
  expect(labelOf(texts, 2, 7, 0)).toBe(""); // a row as low would lie over its neighbours
  const shown = Array.from({ length: 60 }, (_, at) => labelOf([], at, 3, 41)).filter((text) => text);
  expect(shown).toEqual(["0", "10", "20", "30", "41", "50"]);
  expect(labelOf([], 40, 3)).toBe("40");
});
