import { describe, expect, test } from "vitest";
import { BarrierStates } from "./states";
import { smallLaunch } from "./testing/small_launch";

const states = new BarrierStates(smallLaunch());
const [FULL, EMPTY, NAMED] = [0, 1, 2];
/** Steps by the position that they are at: the whole launch has events that are another cluster's. */
const [START, MADE, ANNOUNCED, PASSED, RETURNED, END] = [0, 1, 3, 4, 7, 8];

describe("an mbarrier", () => {
  test("is fresh until it is initialised", () => {
    expect(states.at(FULL, START)).toMatchObject({ fresh: true, ended: 0 });
    expect(states.at(FULL, MADE)).toMatchObject({ fresh: false, pending: 1, expected: 1, tx: 0 });
  });

  test("expects bytes, and turns when they have come", () => {
    expect(states.at(FULL, ANNOUNCED)).toMatchObject({ pending: 0, tx: 4096, parity: 0, ended: 0 });
    expect(states.at(FULL, PASSED)).toMatchObject({ pending: 1, tx: 0, parity: 1, ended: 1 });
  });

  test("knows who waits, and since when", () => {
    expect(states.waitingAt(FULL, START)).toEqual([]);
    expect(states.waitingAt(FULL, 2)).toEqual([{ row: 1, since: 1, event: 7 }]);
    expect(states.waitingAt(FULL, PASSED)).toEqual([]);
  });

  test("ends its phases one by one", () => {
    expect([START, RETURNED - 1, RETURNED, END].map((step) => states.at(EMPTY, step).ended)).toEqual([
      0, 0, 1, 1,
    ]);
  });
});

test("arrivals of a phase are distinguished by whether they have come", () => {
  const arrival = { event: 12, count: 1, asynchronous: false };
  expect(states.arrivalsAt(EMPTY, MADE)).toEqual({ come: [], toCome: [arrival], ends: true });
  expect(states.arrivalsAt(EMPTY, END)).toEqual({ come: [], toCome: [], ends: false });
  expect(states.arrivalsAt(FULL, MADE).toCome).toEqual([{ event: 2, count: 1, asynchronous: true }]);
});

test("a barrier that nothing was ever done to is unused", () => {
  expect([FULL, EMPTY, NAMED].map((barrier) => states.used(barrier))).toEqual([true, true, false]);
  expect(states.at(NAMED, END).fresh).toBe(true);
});
