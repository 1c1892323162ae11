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
    expect(states.waitingAt(FULL, 2)).toEqual([{ row: 1, since: 1, event: 7, wait: 0 }]);
    expect(states.waitingAt(FULL, PASSED)).toEqual([]);
  });

  test("ends its phases one by one", () => {
    expect([START, RETURNED - 1, RETURNED, END].map((step) => states.at(EMPTY, step).ended)).toEqual([
      0, 0, 1, 1,
    ]);
  });
});

test("arrivals of a phase are distinguished by whether they have come", () => {
  const arrival = { event: 12, moment: 12, count: 1, asynchronous: false };
  expect(states.arrivalsAt(EMPTY, MADE)).toEqual({ come: [], toCome: [arrival], ends: true });
  expect(states.arrivalsAt(EMPTY, END)).toEqual({ come: [], toCome: [], ends: false });
  expect(states.arrivalsAt(FULL, MADE).toCome).toEqual([
    { event: 2, moment: 2, count: 1, asynchronous: true },
  ]);
});

test("a barrier that nothing was ever done to is unused", () => {
  expect([FULL, EMPTY, NAMED].map((barrier) => states.used(barrier))).toEqual([true, true, false]);
  expect(states.at(NAMED, END).fresh).toBe(true);
});

describe("a bar.sync", () => {
  // warp 0 waits from position 2 and goes on as event 12, after warp 1, whose event 8 ends phase 0
  const launch = smallLaunch();
  const arrive = launch.meta.actions.indexOf("arrive");
  const column = (...values: number[]) => Int32Array.from(values);
  const synced = new BarrierStates({
    ...launch,
    actions: {
      size: 2,
      event: column(8, 12),
      barrier: column(NAMED, NAMED),
      action: column(arrive, arrive),
      passed: column(0, 0),
      parity: column(0, 1),
    },
    waits: {
      size: 1,
      since: column(2),
      event: column(12),
      row: column(0),
      kind: column(0),
      barrier: column(NAMED),
      phase: column(0),
      cause: column(8),
    },
    phases: {
      size: 1,
      position: column(8),
      barrier: column(NAMED),
      number: column(0),
      event: column(8),
      asynchronous: column(0),
    },
  });

  test("arrives where it begins to wait, in the phase that its wait ends with", () => {
    const { come, toCome } = synced.arrivalsAt(NAMED, ANNOUNCED);
    expect(come.map(({ event }) => event)).toEqual([12]);
    expect(toCome.map(({ event }) => event)).toEqual([8]);
  });

  test("does not arrive in the phase after it", () => {
    expect(synced.arrivalsAt(NAMED, END)).toEqual({ come: [], toCome: [], ends: false });
  });
});

test("of a launch that failed, who tested a barrier to the end waits for it, since the first test that failed", () => {
  const launch = smallLaunch();
  const column = (...values: number[]) => Int32Array.from(values);
  const waits = {
    size: 3,
    since: column(1, 8, 12),
    event: column(7, 11, 14),
    row: column(1, 0, 0),
    kind: column(0, 0, 0),
    barrier: column(FULL, EMPTY, EMPTY),
    phase: column(0, -1, -1),
    cause: column(2, -1, -1),
  };
  const failed = new BarrierStates({ ...launch, meta: { ...launch.meta, error: "deadlock" }, waits });
  expect(failed.waitingAt(EMPTY, END)).toEqual([{ row: 0, since: 8, event: 14, wait: 1 }]);
  expect(failed.waitingAt(FULL, END)).toEqual([]);
  expect(new BarrierStates({ ...launch, waits }).waitingAt(EMPTY, END)).toEqual([]);
});
