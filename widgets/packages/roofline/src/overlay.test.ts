import type { Theme } from "@sglab/core";
import { expect, test } from "vitest";
import { spotsOf } from "./model";
import { rangesIn, selectedPlace } from "./overlay";
import { MACHINE, mark } from "./testing/marks";

const RANGES = { x: [0, 2], y: [12, 14] } as { x: [number, number]; y: [number, number] };
const scene = (lit: number) => ({
  machine: MACHINE,
  spots: spotsOf([mark("emulated", 1e7), mark("modelled", 1e7, { seconds: 1e-6, machine: "X1" })], "X1"),
  lit,
  width: 702, // 600 inside
  height: 452, // 400 inside
  theme: { focus: "#06c" } as Theme,
});

test("the selected point lies where its axes say, with its roof above it", () => {
  expect(selectedPlace(scene(0), RANGES)).toBeUndefined();
  const timed = selectedPlace(scene(2), RANGES); // intensity 10, 1e13 of 2e13 FLOP/s
  expect(timed).toMatchObject({ x: 300, y: 200 });
  expect(timed?.roof).toBeCloseTo(200 * (1 - Math.log10(2)));
  const onRoof = selectedPlace(scene(1), RANGES);
  expect(onRoof?.roof).toBe(onRoof?.y);
  expect(selectedPlace(scene(2), { ...RANGES, x: [1, 2] })?.x).toBe(0);
});

test("ranges come from a layout or from a change of one", () => {
  expect(rangesIn({ xaxis: { range: [1, 2] }, yaxis: { range: [3, 4] } }, RANGES)).toEqual({
    x: [1, 2],
    y: [3, 4],
  });
  expect(rangesIn({ "xaxis.range[0]": 1, "xaxis.range[1]": 1.5 }, RANGES)).toEqual({
    x: [1, 1.5],
    y: [12, 14],
  });
  expect(rangesIn(undefined, RANGES)).toEqual(RANGES);
});
