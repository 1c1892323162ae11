import { issueClock } from "@sglab/launch/clock";
import { failedEvent } from "@sglab/launch/parts";
import { smallLaunch } from "@sglab/launch/testing/small_launch";
import { expect, test } from "vitest";
import { warpTimeline } from "./model";

test("a warp ends with its last instruction; one that a failure cut off, with the launch", () => {
  const launch = smallLaunch();
  const ends = (error: string) =>
    warpTimeline({ ...launch, meta: { ...launch.meta, error } })
      .model.rows.slice(0, 2)
      .map(({ alive }) => alive?.end[0]);
  expect(ends("")).toEqual([8, 7]);
  expect(ends("deadlock")).toEqual([8, 8]);
});

/** Warp 0 tests empty[0] in vain, as events 11 and 14, the first at once, until the launch fails. */
function deadlock() {
  const launch = smallLaunch();
  const meta = { ...launch.meta, error: "deadlock", failed: { cta: 4, warp: 0, line: 105 } };
  const column = (...values: number[]) => Int32Array.from(values);
  const waits = {
    size: 3,
    since: column(1, 11, 12),
    event: column(7, 11, 14),
    row: column(1, 0, 0),
    kind: column(0, 0, 0),
    barrier: column(0, 1, 1),
    phase: column(0, -1, -1),
    cause: column(2, -1, -1),
  };
  return { ...launch, meta, waits, clock: issueClock({ ...launch, waits }, launch.places, meta) };
}

test("a wait that never ended is drawn to the end, as one, and said to have lasted so long", () => {
  const launch = deadlock();
  const [warp0, warp1] = warpTimeline(launch).model.rows;
  expect([warp0?.waits?.size, warp0?.waits?.start[0], warp0?.waits?.end[0]]).toEqual([1, 5, 8]);
  expect([warp1?.waits?.size, warp1?.waits?.end[0]]).toEqual([1, 3]);
  expect(launch.clock.wait(warp0?.waits?.id[0] as number)).toEqual([5, 8]);
});

test("where it failed is the test that the error names; elsewhere the warp's last, or the cluster's", () => {
  const launch = deadlock();
  const at = (failed: object) => failedEvent({ ...launch, meta: { ...launch.meta, ...failed } });
  expect(at({})).toBe(11);
  expect(at({ failed: { cta: 4, warp: 1, line: 1 } })).toBe(12);
  expect(at({ failed: { cta: 9, warp: 1, line: 1 } })).toBe(14);
  expect(at({ failed: undefined })).toBe(14);
});
