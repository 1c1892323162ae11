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
