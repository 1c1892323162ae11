import { expect, test } from "vitest";
import { issueClock } from "./clock";
import { fitOf } from "./fit";
import { smallLaunch } from "./testing/small_launch";

test("a cluster that takes the whole axis needs no fitting", () => {
  expect(fitOf(smallLaunch())).toBeUndefined();
});

test("one that runs late or briefly is fitted, with a margin", () => {
  const launch = smallLaunch();
  const clock = { ...issueClock(launch, launch.places, launch.meta), length: 100 };
  const late = { ...clock, bar: (index: number) => [50 + index, 51 + index] as const };
  const fit = fitOf({ ...launch, clock: { ...late, operation: () => [60, 70] as const } });
  expect(fit?.start).toBeCloseTo(49.8);
  expect(fit?.end).toBeCloseTo(70.2);
});

test("of a launch that failed, what came after the last change is left out for the most part", () => {
  const launch = smallLaunch();
  const failed = { ...launch, meta: { ...launch.meta, error: "deadlock" } };
  expect(fitOf(failed)).toBeUndefined();
  const spinning = { ...failed, clock: { ...failed.clock, length: 1000, bar: () => [0, 1000] as const } };
  expect(fitOf(spinning)?.end).toBeCloseTo(7 * 1.25, 0); // the last change is at step 7
});
