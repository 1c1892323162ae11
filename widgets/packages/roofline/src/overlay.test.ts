import type { Theme } from "@sglab/core";
import { expect, test } from "vitest";
import { spotsOf } from "./model";
import { placeNames, rangesIn, selectedPlace } from "./overlay";
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

test("a name stands once beside its point, at the side that has room, and covers neither names nor marks", () => {
  const named = (label: string, flops: number) => ({ ...mark("emulated", flops), label });
  const of = (labels: [string, number][], lit: number) => ({
    ...scene(lit),
    spots: spotsOf(
      labels.map(([label, flops]) => named(label, flops)),
      "X1",
    ),
  });
  const texts = (labels: [string, number][], lit: number) =>
    placeNames(of(labels, lit), RANGES).map(({ text }) => text);
  expect(
    texts(
      [
        ["a", 1e7],
        ["b", 2e7],
      ],
      0,
    ),
  ).toEqual(["a", "b"]);
  expect(
    texts(
      [
        ["a", 1e7],
        ["a", 2e7],
      ],
      0,
    ),
  ).toEqual(["a"]);
  expect(
    texts(
      [
        ["a", 1e7],
        ["b", 1e7],
      ],
      2,
    ),
  ).toEqual(["b", "a"]); // below it: the selected one's goes before
  expect(texts([["far away", 1e12]], 1)).toEqual([]); // off the picture
  expect(
    texts(
      Array.from({ length: 9 }, (_, i) => [`p${i}`, (i + 1) * 1e7] as [string, number]),
      3,
    ),
  ).toEqual(["p2"]);
  expect(placeNames(of([["n".repeat(40), 4.5e7]], 1), RANGES)[0]).toMatchObject({
    text: `${"n".repeat(27)}…`,
    anchor: "end",
  });
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
