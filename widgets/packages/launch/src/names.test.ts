import { expect, test } from "vitest";
import { barrierKey, barrierOf, barrierPlace, rowsOf, warpAndRole } from "./names";
import { smallLaunch } from "./testing/small_launch";

const launch = smallLaunch();

test("warps are named by the grid's CTA and their role", () => {
  expect([0, 1].map((row) => warpAndRole(launch, row))).toEqual([
    "CTA 4 warp 0 (load)",
    "CTA 4 warp 1 (mma)",
  ]);
});

test("barriers by what they are and where", () => {
  expect(launch.meta.barriers.map((each) => barrierPlace(launch, each))).toEqual([
    "mbarrier smem+0x36d80 of CTA 4",
    "mbarrier smem+0x36d88 of CTA 4",
    "barrier 3 of CTA 4",
  ]);
});

test("the selection's name of a barrier leads back to it", () => {
  expect(barrierKey(launch, 0)).toBe("4/mbarrier/0x36d80");
  launch.meta.barriers.forEach((_, i) => {
    expect(barrierOf(launch, { barrier: barrierKey(launch, i) })).toBe(i);
  });
  expect(barrierOf(launch, { barrier: "0/mbarrier/0x36d80" })).toBeUndefined();
  expect(barrierOf(launch, {})).toBeUndefined();
});

test("a selection names rows: a CTA's, a warp's, none of another cluster's", () => {
  expect(rowsOf(launch, { cta: 4 })).toEqual([0, 1]);
  expect(rowsOf(launch, { cta: 4, warp: 1 })).toEqual([1]);
  expect([
    rowsOf(launch, { cta: 4, warp: 2 }),
    rowsOf(launch, { cta: 0 }),
    rowsOf(launch, { warp: 1 }),
  ]).toEqual([[], [], []]);
});
