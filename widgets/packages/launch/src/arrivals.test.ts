import { expect, test } from "vitest";
import { actionMoments, positionOf } from "./arrivals";
import { smallLaunch } from "./testing/small_launch";

test("what a warp does to a barrier is where it does it", () => {
  const launch = smallLaunch();
  expect([...actionMoments(launch)]).toEqual([...launch.actions.event]);
});

test("an arrival that is also a wait is just before the wait began", () => {
  const launch = smallLaunch();
  const arrive = launch.meta.actions.indexOf("arrive");
  const at = launch.actions.action.indexOf(arrive);
  const event = launch.actions.event[at] as number;
  const waits = {
    ...launch.waits,
    size: 1,
    event: Int32Array.of(event),
    since: Int32Array.of(event - 3),
    barrier: Int32Array.of(0),
  };
  const moments = actionMoments({ ...launch, waits } as typeof launch);
  expect(moments[at]).toBe(event - 3.25);
  expect(positionOf(moments[at] as number)).toBe(event - 3);
  expect([...moments].filter((_, i) => i !== at)).toEqual(
    [...launch.actions.event].filter((_, i) => i !== at),
  );
});

test("a wait for something other than a barrier moves no arrival", () => {
  const launch = smallLaunch();
  const arrive = launch.meta.actions.indexOf("arrive");
  const event = launch.actions.event[launch.actions.action.indexOf(arrive)] as number;
  const waits = {
    ...launch.waits,
    size: 1,
    event: Int32Array.of(event),
    since: Int32Array.of(0),
    barrier: Int32Array.of(-1),
  };
  expect([...actionMoments({ ...launch, waits } as typeof launch)]).toEqual([...launch.actions.event]);
});
