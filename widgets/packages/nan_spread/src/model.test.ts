import { expect, test } from "vitest";
import { Spread } from "./model";
import { markPath } from "./picture";
import type { Shown } from "./protocol";

const SHOWN: Shown = {
  rows: ["global memory", "CTA 0 warp 1"],
  roles: [],
  infinite: false,
  events: 5,
  truncated: false,
  first: 0,
  facts: [],
  sentences: ["a", "b", "c", "d", "e"],
};
/** 0 → 1 → 2 → 4 and 1 → 4; 3 is an origin of its own. */
const EVENTS = [0, 2, 2, 1, 3, 1, 1, 1, 1, 0, 5, 6, 7, 8, 9, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1];
const spread = new Spread(SHOWN, Int32Array.from(EVENTS), Int32Array.from([0, 1, 1, 2, 1, 2, 4, 4]));

test("events have their columns", () => {
  expect([spread.role(0), spread.role(3), spread.role(4)]).toEqual(["made", "came", "stored"]);
  expect([spread.row(4), spread.position(4), spread.cta(4), spread.warp(4)]).toEqual([0, 9, 0, 1]);
});

test("the shortest way begins at an origin", () => {
  expect(spread.way(4)).toEqual([0, 1, 4]);
  expect(spread.way(2)).toEqual([0, 1, 2]);
  expect(spread.way(3)).toEqual([3]);
});

test("what an event's NaN has reached", () => {
  expect([...spread.reached(0)].sort()).toEqual([0, 1, 2, 4]);
  expect([...spread.reached(3)]).toEqual([3]);
});

test("every role has a form of its own", () => {
  const forms = (["made", "came", "spread", "stored", "stopped"] as const).map((role) =>
    markPath(role, 0, 0),
  );
  expect(new Set(forms).size).toBe(5);
});
