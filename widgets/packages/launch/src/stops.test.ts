import { expect, test } from "vitest";
import { Relations } from "./relations";
import { trackOf } from "./stops";
import { smallLaunch } from "./testing/small_launch";
import { touching } from "./touching";

const launch = smallLaunch();
const track = trackOf(launch, new Relations(launch), () => undefined);
const stops = (id: string) => Array.from(track.granularities.find((each) => each.id === id)?.stops ?? []);

test("every step size ends at the last event", () => {
  for (const { stops } of track.granularities) if (stops) expect(stops[stops.length - 1]).toBe(track.length);
  expect(track.length).toBe(8);
});

test("a source line ends where a warp moves to another, or another warp does", () => {
  expect(stops("line")).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
});

test("roles end where another role continues", () => {
  expect(stops("role")).toEqual([3, 5, 6, 7, 8]);
});

test("events are what barriers and asynchronous operations have to do with", () => {
  expect(stops("event")).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
});

test("the ends of phases are marked", () => {
  expect(track.marks).toEqual([
    { at: 4, label: "phase 0 of full[0] ends" },
    { at: 7, label: "phase 0 of empty[0] ends" },
  ]);
});

test("a cluster of a larger launch says where in that it is", () => {
  expect(track.time?.(4)).toBe("position 8 of the launch");
});

test("what touches a selection: of a page, a barrier, a warp, or nothing of this cluster", () => {
  const of = (selection: Parameters<typeof touching>[1]) => {
    const steps = touching(launch, selection);
    return steps && Array.from(steps);
  };
  expect(of({ page: 7 })).toEqual([2]);
  expect(of({ barrier: "4/mbarrier/0x36d88" })).toEqual([7, 8]);
  expect(of({ cta: 4, warp: 1 })).toEqual([4, 5, 7]);
  expect(of({ cta: 3 })).toBeUndefined();
});
