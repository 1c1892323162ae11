import type { Rect } from "@sglab/core";
import { describe, expect, it } from "vitest";
import { pathBetween } from "./link_path";

const [CELL, GAP] = [40, 4];
const grid = (x: number, y: number, rows: number, columns: number): Rect => ({
  x,
  y,
  width: columns * CELL,
  height: rows * CELL,
});
const cell = (of: Rect, row: number, column: number): Rect => ({
  x: of.x + column * CELL,
  y: of.y + row * CELL,
  width: CELL,
  height: CELL,
});

/** The corners of a path, with where each straight part leads. */
function points(path: string): [number, number][] {
  const found: [number, number][] = [];
  for (const [, kind, text = ""] of path.matchAll(/([A-Za-z])([^A-Za-z]*)/g)) {
    const numbers = text.split(/[ ,]+/).filter(Boolean).map(Number);
    const [x = 0, y = 0] = found.at(-1) ?? [];
    const [value = 0] = numbers;
    if (kind === "H") found.push([value, y]);
    else if (kind === "V") found.push([x, value]);
    else if (kind === "h") found.push([x + value, y]);
    else if (kind === "v") found.push([x, y + value]);
    else found.push(numbers.slice(-2) as [number, number]);
  }
  return found;
}

/** Whether a point is where a cell's number is. */
function onNumber([x, y]: [number, number], of: Rect): boolean {
  const inside = x >= of.x && x <= of.x + of.width && y >= of.y && y <= of.y + of.height;
  const middle = (at: number) => at > 2 * GAP && at < CELL - 2 * GAP;
  return inside && middle((x - of.x) % CELL) && middle((y - of.y) % CELL);
}

describe.each([
  ["below", grid(0, 0, 4, 6), grid(20, 200, 4, 9)],
  ["beside", grid(0, 0, 4, 6), grid(300, 10, 4, 9)],
])("a pool %s", (_, requests, pool) => {
  it("is reached between the cells", () => {
    for (const [row, column, page, place] of [
      [0, 3, 2, 5],
      [3, 0, 0, 0],
      [1, 5, 3, 8],
    ] as const) {
      const [from, to] = [cell(requests, row, column), cell(pool, page, place)];
      const corners = points(pathBetween(from, to, requests, pool));
      const [first, last] = [corners[0], corners.at(-1)] as [[number, number], [number, number]];
      for (const [at, rect] of [
        [first, from],
        [last, to],
      ] as const) {
        expect(at[0]).toBeGreaterThan(rect.x);
        expect(at[0]).toBeLessThan(rect.x + rect.width);
        expect(at[1]).toBeGreaterThan(rect.y);
        expect(at[1]).toBeLessThan(rect.y + rect.height);
      }
      corners.slice(1).forEach((end, i) => {
        const start = corners[i] as [number, number];
        for (let t = 0; t <= 1; t += 0.02) {
          const point: [number, number] = [
            start[0] + t * (end[0] - start[0]),
            start[1] + t * (end[1] - start[1]),
          ];
          expect(onNumber(point, requests) || onNumber(point, pool)).toBe(false);
        }
      });
    }
  });
});
