import { expect, test } from "vitest";
import type { Event } from "./protocol";
import { columnOf, eventOf } from "./slots";

const capture = (bs: number): Event => ({ kind: "capture", bs, warm_ups: 1, launches: 0 });
const replay: Event = { kind: "replay", raw: 1, bs: 1, step: 0, requests: [], inputs: {} };
const events = [capture(4), capture(1), replay, replay];

test("a capture has as many columns as its size needs to be written, a gap parts it from the replays", () => {
  expect([0, 1, 2, 3, 4].map((column) => eventOf(events, column))).toEqual([0, 1, -1, 2, 3]);
  expect([0, 2, 3, 5, 6, 7, 8].map((column) => eventOf(events, column, 3))).toEqual([0, 0, 1, 1, -1, 2, 3]);
  for (const span of [1, 3])
    events.forEach((_, i) => {
      expect(eventOf(events, columnOf(events, i, span), span)).toBe(i);
    });
});
