import { expect, test } from "vitest";
import { issueClock } from "./clock";
import { fitOf } from "./fit";
import { smallLaunch } from "./testing/small_launch";

test("a cluster that takes the whole axis needs no fitting", () => {
  expect(fitOf(smallLaunch())).toBeUndefined();
});

test("one that runs late or briefly is fitted, with a margin", () => {
  const launch = smallLaunch();
  const clock = { ...issueClock(launch, launch.places), length: 100 };
  const late = { ...clock, bar: (index: number) => [50 + index, 51 + index] as const };
  const fit = fitOf({ ...launch, clock: { ...late, operation: () => [60, 70] as const } });
  expect(fit?.start).toBeCloseTo(49.8);
  expect(fit?.end).toBeCloseTo(70.2);
});
