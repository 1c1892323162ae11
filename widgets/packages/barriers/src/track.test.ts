import { Relations } from "@sglab/launch/relations";
import { BarrierStates } from "@sglab/launch/states";
import { smallLaunch } from "@sglab/launch/testing/small_launch";
import { describe, expect, test } from "vitest";
import { trackOf } from "./track";

const launch = smallLaunch();
const [FULL] = [0, 1];
const track = (selected?: number) =>
  trackOf(launch, new Relations(launch), new BarrierStates(launch), () => selected);
const stops = (id: string) => Array.from(track().granularities.find((each) => each.id === id)?.stops ?? []);

describe("the steps of barriers", () => {
  test("are instructions, changes, and ends of phases, each stop once", () => {
    expect(track().length).toBe(launch.places.size);
    expect(stops("phase")).toEqual([4, 7]); // the copy's bytes are seen by the wait, the arrival by itself
    expect(stops("change")).toEqual([1, 3, 4, 7]);
  });

  test("say which phase ended, by whom, and how many it released", () => {
    expect(track().describe(4)).toBe(
      "Phase 0 of full[0] ended by CTA 4 warp 0 (load), 1 waiting warp released.",
    );
    expect(track().describe(7)).toMatch(/^Phase 0 of empty\[0\] ended by CTA 4 warp 1 \(mma\)\.$/);
  });

  test("tell barriers of one name in two CTAs apart where both phases end at once", () => {
    const { meta, phases } = launch;
    const [full] = meta.barriers;
    if (!full) throw new Error("no barrier");
    const pair = {
      ...launch,
      meta: { ...meta, ctas: [4, 5], barriers: [full, { ...full, rank: 1 }, ...meta.barriers.slice(2)] },
      phases: { ...phases, position: Int32Array.of(12, 12), event: Int32Array.of(12, 12) },
    };
    expect(trackOf(pair, new Relations(pair), new BarrierStates(pair), () => undefined).describe(7)).toMatch(
      /^Phase 0 of full\[0\] of CTA 4 ended by .*\. Phase 0 of full\[0\] of CTA 5 ended by /,
    );
  });

  test("say who waits at the selected barrier", () => {
    expect(track(FULL).describe(3)).toMatch(/ full\[0\]: 0 of 1 pending, 4\.0 KiB under way\. (\d|No)/);
    expect(track().describe(3)).not.toContain(" full[0]: ");
  });

  test("of the selected barrier are where it changes", () => {
    const mine = Array.from(track(FULL).eventsOfSelection?.() ?? []);
    expect(mine).toEqual([1, 3, 4]);
    expect(track().eventsOfSelection?.()).toBeUndefined();
  });
});
