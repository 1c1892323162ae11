import { describe, expect, test } from "vitest";
import {
  decadesOf,
  hiddenText,
  neighbour,
  roofsOf,
  seriesOf,
  spotsOf,
  ticks,
  ticksIn,
  zoomed,
} from "./model";
import type { Place } from "./protocol";
import { MACHINE, mark } from "./testing/marks";
import { duration, intensityText, markRows, sentence, si } from "./words";

describe("points under a machine's roofs", () => {
  const marks = [
    mark("arithmetic", 1e7, { series: "a" }),
    mark("modelled", 1e7, { series: "a", seconds: 1e-6, machine: "X1" }),
    mark("measured", 1e7, { seconds: 1e-6, machine: "another" }),
    mark("arithmetic", 1e9, { series: "a" }),
    mark("arithmetic", 1e9, { at: {} }),
  ];
  const spots = spotsOf(marks, "X1");

  test("are those without a time and those timed on it; numbers stay", () => {
    expect(spots.map(({ index }) => index)).toEqual([0, 1, 3]);
    expect(spots.map(({ x }) => x)).toEqual([10, 10, 1000]);
  });

  test("a time says how high, and without one the roof does", () => {
    expect(spots.map(({ y }) => Math.round(y / 1e9))).toEqual([20_000, 10_000, 400_000]);
  });

  test("the next of a series skips other origins", () => {
    expect(neighbour(spots, 0, 1)).toBe(2);
    expect(neighbour(spots, 2, -1)).toBe(0);
    expect(neighbour(spots, 2, 1)).toBeUndefined();
    expect(neighbour(spots, -1, 1)).toBe(0);
    expect(seriesOf(spots)).toEqual(["a"]);
  });

  test("axes hold every point and the ridges", () => {
    const { x, y } = decadesOf(MACHINE, roofsOf(MACHINE, spots), spots);
    expect(x[0]).toBe(0);
    expect(10 ** x[1]).toBeGreaterThan(400); // the ridge of FP8
    expect(10 ** y[0]).toBeLessThanOrEqual(1e13 / 2);
    expect(10 ** y[1]).toBeGreaterThan(800e12);
  });
});

test("roofs are the usual ones and those that points need; equal peaks share a line", () => {
  expect(roofsOf(MACHINE, []).map(({ kinds }) => kinds)).toEqual([["fp8"], ["bf16"], ["fp32"]]);
  const spots = spotsOf([mark("arithmetic", 1e6, {}, "fp64"), mark("arithmetic", 1e6, {}, "int8")], "X1");
  const roofs = roofsOf(MACHINE, spots);
  expect(roofs.map(({ kinds }) => kinds)).toEqual([["fp8", "int8"], ["bf16"], ["fp64", "fp32"]]);
  expect(roofs.map(({ ridge }) => ridge)).toEqual([400, 200, 10.25]);
});

test.each([
  [[-1, 4], 10, [-1, 0, 1, 2, 3, 4]],
  [[-1, 4.4], 3, [-1, 1, 3]],
  [[0, 0.5], 5, [0]],
] as const)("decades %j in at most %i ticks", (decades, most, powers) => {
  expect(ticks([...decades], most)).toEqual(powers);
});

test.each([
  [989.4e12, "FLOP/s", "989 TFLOP/s"],
  [3.35e12, "B/s", "3.35 TB/s"],
  [8e12, "B/s", "8 TB/s"],
  [999.9e9, "FLOP/s", "1.00 TFLOP/s"],
  [12.34e6, "FLOP", "12.3 MFLOP"],
])("%d %s is %s", (value, unit, text) => {
  expect(si(value, unit)).toBe(text);
});

test("intensities have the digits that matter", () => {
  expect([0.25, 3.996, 30.2, 241.8, 1638.8].map(intensityText)).toEqual([
    "0.25",
    "4.0",
    "30.2",
    "242",
    "1,639",
  ]);
});

test("a point in words", () => {
  const texts = { origins: { modelled: "by a model" }, pipes: { bf16: "tensor cores" }, attention: {} };
  const timed = mark("modelled", 1e7, { seconds: 2e-6, machine: "X1" });
  expect(sentence(timed, "X1")).toBe(
    "10000000 of bf16 (modelled): 10.0 FLOP per byte, 5 TFLOP/s in 2.00 µs, 25 % of its roof.",
  );
  expect(sentence(mark("arithmetic", 1e9), "X1")).toContain("at most 400 TFLOP/s on X1, bound by compute.");
  const rows = Object.fromEntries(markRows(timed, MACHINE, texts));
  expect(rows["its roof"]).toBe("20 TFLOP/s: 500 ns at least");
  expect(rows["of its roof"]).toBe("25 %");
  expect([0, 1e-13, 3.2e-10, 1e-9].map(duration)).toEqual(["0 ns", "less than 0.01 ns", "0.32 ns", "1 ns"]);
  const least = (seconds: number) => {
    const at = { X1: { ...(timed.at.X1 as Place), seconds } };
    return Object.fromEntries(markRows({ ...timed, at }, MACHINE, texts))["its roof"];
  };
  expect([3.2e-10, 1e-13].map(least)).toEqual(["20 TFLOP/s: 0.32 ns at least", "20 TFLOP/s"]);
  expect(rows.requested).toBe("2.9 MiB, 3.0 × as much: loads, stores and copies");
  expect(markRows(mark("arithmetic", 1, { at: {} }), MACHINE, texts).at(-1)).toEqual([
    "its roof",
    "X1 has no published peak for its arithmetic",
  ]);
});

test("what has no place under a machine's roofs is named, with the reason of each", () => {
  const timed = mark("modelled", 1e7, { seconds: 1e-6, machine: "B200" });
  const peakless = mark("emulated", 1e7, { label: "h2", at: {} });
  expect(hiddenText([mark("emulated", 1e7)], "X1")).toBe("");
  expect(hiddenText([timed, timed], "X1")).toBe("Not shown: 2 timed on B200.");
  expect(hiddenText([timed, peakless], "X1")).toBe(
    "Not shown: 1 timed on B200; “h2”, for whose arithmetic no peak is published here.",
  );
  const idle = mark("arithmetic", 0, { label: "nothing", at: {} });
  expect(hiddenText([idle], "X1")).toBe("Not shown: “nothing”, which has no FLOPs.");
});

test("a point above its roof is in the picture, and is said not to be possible", () => {
  const wrong = mark("measured", 1e7, { seconds: 1e-9, machine: "X1" });
  const [spot] = spotsOf([wrong], "X1");
  const { y } = decadesOf(MACHINE, roofsOf(MACHINE, spotsOf([wrong], "X1")), spotsOf([wrong], "X1"));
  expect(10 ** y[1]).toBeGreaterThan(spot?.y ?? Number.POSITIVE_INFINITY);
  expect(sentence(wrong, "X1")).toContain("above its roof, which cannot be");
  const texts = { origins: {}, pipes: {}, attention: {} };
  expect(Object.fromEntries(markRows(wrong, MACHINE, texts))["of its roof"]).toMatch(/^500 ×: above it/);
});

test("a sentence names the series: points of several may have one name", () => {
  expect(sentence(mark("arithmetic", 1e7, { series: "kv4" }), "X1")).toContain("(kv4, arithmetic)");
});

test("a zoom between two decades still has ticks, and keeps what is under the pointer", () => {
  expect(ticksIn([0, 3], 9)).toEqual([0, 1, 2, 3]);
  expect(ticksIn([1.2, 1.8], 9).map((at) => Math.round(10 ** at))).toEqual([20, 50]);
  expect(ticksIn([1.41, 1.45], 9).length).toBeGreaterThan(1);
  const [low, high] = zoomed([0, 4], 1, 0.5);
  expect([low, high]).toEqual([0.5, 2.5]);
});
