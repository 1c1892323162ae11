import { expect, test } from "vitest";
import { Places } from "./places";

const AT = [0, 2, 3, 7];
const places = new Places(Int32Array.from(AT));

test("a step counts the cluster's events before a position", () => {
  for (let position = 0; position < 10; position++)
    expect(places.stepAt(position)).toBe(AT.filter((at) => at < position).length);
});

test("positions and steps lead back to each other", () => {
  for (let step = 0; step <= AT.length; step++) expect(places.stepAt(places.positionAt(step))).toBe(step);
  expect([0, 1, 2, 4].map((step) => places.positionAt(step))).toEqual([0, 1, 3, 8]);
});

test("events of the launch have an index here, or are another cluster's", () => {
  expect(AT.map((event) => places.indexOf(event))).toEqual([0, 1, 2, 3]);
  expect([1, 4, 8, -1].map((event) => places.indexOf(event))).toEqual([-1, -1, -1, -1]);
});

test("what happens at a position is over one step later, at most at the end", () => {
  expect([0, 1, 2, 7, 50].map((position) => places.stepBehind(position))).toEqual([1, 2, 2, 4, 4]);
});
