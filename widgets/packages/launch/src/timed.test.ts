import { expect, test } from "vitest";
import { timeAt } from "./stops";
import { smallLaunch } from "./testing/small_launch";
import { type Times, timedLaunch } from "./timed";

/** Warp 0 is late: what warp 1 does after its wait comes before warp 0's addition. */
const TIMES: Times = {
  start: Float64Array.of(0, 100, 110, 20, 910, 950, 940, 960),
  end: Float64Array.of(10, 110, 120, 900, 930, 955, 945, 965),
  phase: Float64Array.of(890, 945),
  operationStart: Float64Array.of(110, 930),
  operationEnd: Float64Array.of(890, 1500),
  state: Float64Array.of(10, 10, 120, 890, 945),
  states: smallLaunch().states,
};
const launch = smallLaunch();
const timed = timedLaunch(launch, TIMES);

test("events come in the order in which they take effect; a wait, when it ends", () => {
  expect(Array.from(timed.events.pc)).toEqual([0, 1, 2, 3, 4, 6, 5, 7]);
  expect(Array.from(timed.events.at)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  expect(timed.meta.length).toBe(8);
});

test("who waited in modelled time has a wait, with the event that ended it", () => {
  expect(timed.waits.size).toBe(1);
  const [event, cause] = [timed.waits.event[0] as number, timed.waits.cause[0] as number];
  expect([timed.events.pc[event], timed.events.pc[cause]]).toEqual([3, 1]);
  expect(timed.clock.wait(0)).toEqual([20, 900]);
});

test("tables are renumbered alike", () => {
  const pcs = (column: Int32Array) => Array.from(column, (event) => timed.events.pc[event]);
  expect(pcs(timed.actions.event)).toEqual([0, 2, 3, 6, 7]);
  expect(pcs(timed.phases.event)).toEqual([1, 6]);
  expect(pcs(timed.operations.event)).toEqual([1, 4]);
});

test("the clock's steps are those of the order, and its axis is nanoseconds", () => {
  for (let step = 1; step <= timed.events.size; step++) {
    expect(timed.clock.stepAt(timed.clock.x(step))).toBe(step);
    expect(timed.clock.stepOf(timed.clock.momentAt(step))).toBe(step);
  }
  expect(timed.clock.at(4)).toBe("910 ns");
  expect(timed.clock.operation(0)).toEqual([110, 890]);
});

test("before the first step, the time is the launch's beginning, and says when the first event comes", () => {
  const late = timedLaunch(launch, {
    ...TIMES,
    start: TIMES.start.map((at) => at + 850),
    end: TIMES.end.map((at) => at + 850),
  });
  expect(timeAt(late, 0)).toBe(`0 ns, the first event at ${late.clock.at(0)}`);
  expect(late.clock.at(0)).toBe("850 ns");
  expect(timeAt(late, 1)).toBe("850 ns");
  expect(timeAt(timed, 0)).toBe("0 ns");
});
