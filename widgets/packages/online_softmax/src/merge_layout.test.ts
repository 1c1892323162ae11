import { describe, expect, test } from "vitest";
import { planOf } from "./merge";
import { layoutOf } from "./merge_layout";

const rows = (order: "fold" | "reverse", leaves: number, width = 950) =>
  1 + Math.max(...layoutOf(planOf(order, leaves), leaves, width).boxes.map(({ row }) => row));

describe.each(["fold", "reverse"] as const)("merges one after the other, %s", (order) => {
  test("lie in a line below the partials that they take in, however many there are", () => {
    const { boxes } = layoutOf(planOf(order, 8), 8, 950);
    expect(rows(order, 8)).toBe(2);
    planOf(order, 8).forEach(([, leaf], k) => {
      expect(boxes[8 + k]?.x).toBe(boxes[leaf as number]?.x);
    });
  });

  test("are broken into lines, at most three, so that their boxes stay readable", () => {
    expect(rows(order, 16)).toBe(4);
    expect(rows(order, 32)).toBe(6);
    expect(rows(order, 32, 400)).toBe(6);
    const { boxes } = layoutOf(planOf(order, 32), 32, 950);
    for (const { x, wide } of boxes) {
      expect(wide).toBeGreaterThan(64);
      expect(x - wide / 2).toBeGreaterThanOrEqual(0);
      expect(x + wide / 2).toBeLessThanOrEqual(950);
    }
  });

  test("a partial's line ends at the merge that takes it, none crosses a box", () => {
    const leaves = 16;
    const plan = planOf(order, leaves);
    const { boxes, link } = layoutOf(plan, leaves, 950);
    plan.forEach((taken, k) => {
      for (const node of taken) {
        for (const [x, y] of corners(link(node, leaves + k, 62)))
          for (const box of boxes) {
            const inside =
              Math.abs(x - box.x) < box.wide / 2 - 0.01 &&
              y > box.row * 62 + 0.01 &&
              y < box.row * 62 + 55.99;
            expect(inside).toBe(false);
          }
      }
    });
  });
});

test("a chain by hand is laid out alike from its second merge on, unless it goes to and fro", () => {
  const rows = (plan: number[][]) => 1 + Math.max(...layoutOf(plan, 8, 950).boxes.map(({ row }) => row));
  const chain = [
    [0, 1],
    [8, 3],
    [9, 4],
    [10, 6],
  ];
  expect(rows(chain)).toBe(2);
  expect(rows([...chain, [11, 2]])).toBe(6);
  expect(rows([...chain, [5, 7]])).toBeGreaterThan(2);
});

/** The points that a path goes through, and what is halfway between them. */
function corners(path: string): [number, number][] {
  const points: [number, number][] = [];
  for (const [, command, numbers] of path.matchAll(/([MVHL])([-\d.,]+)/g)) {
    const [a, b] = (numbers as string).split(",").map(Number) as [number, number];
    const [x, y] = points.at(-1) ?? [0, 0];
    const next: [number, number] = command === "V" ? [x, a] : command === "H" ? [a, y] : [a, b];
    if (command !== "M")
      for (const t of [0.25, 0.5, 0.75]) points.push([x + (next[0] - x) * t, y + (next[1] - y) * t]);
    points.push(next);
  }
  return points;
}

test("other orders keep their tree", () => {
  expect(1 + Math.max(...layoutOf(planOf("tree", 8), 8, 950).boxes.map(({ row }) => row))).toBe(4);
  expect(1 + Math.max(...layoutOf(planOf("once", 8), 8, 950).boxes.map(({ row }) => row))).toBe(2);
});
