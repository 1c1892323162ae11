import type { Theme } from "@sglab/core";
import { expect, test } from "vitest";
import { change, figure, SYMBOLS } from "./figure";
import { spotsOf } from "./model";
import { MACHINE, mark } from "./testing/marks";

const THEME = { dark: false, text: "#000", border: "#ccc", focus: "#06c", background: "#fff" } as Theme;
const scene = (lit: number) => ({
  machine: MACHINE,
  spots: spotsOf(
    [
      mark("emulated", 1e7),
      mark("modelled", 1e7, { seconds: 1e-6, machine: "X1" }),
      mark("arithmetic", 1e6, { series: "s" }),
      mark("arithmetic", 1e8, { series: "s" }),
    ],
    "X1",
  ),
  lit,
  width: 700,
  height: 500,
  theme: THEME,
});
interface Trace {
  mode: string;
  x: number[];
  y: number[];
  customdata?: number[];
  marker?: { symbol: string; opacity: number[] };
}
const traces = (lit: number) => figure(scene(lit)).data as Trace[];

test("points keep their numbers, their form says where they come from, later ones are pale", () => {
  const points = traces(2).filter(({ customdata }) => customdata);
  expect(points.map(({ customdata }) => customdata)).toEqual([[0], [1], [2, 3]]);
  expect(points.map(({ marker }) => marker?.symbol)).toEqual([
    SYMBOLS.emulated,
    SYMBOLS.modelled,
    SYMBOLS.arithmetic,
  ]);
  expect(points.map(({ marker }) => marker?.opacity)).toEqual([[1], [1], [0.4, 0.4]]);
  expect(points.map(({ mode }) => mode)).toEqual(["markers", "markers", "lines+markers"]);
});

test("a step changes no more than opacities, and comes to the same figure", () => {
  const { style, traces: points } = change(scene(3));
  const whole = figure(scene(3));
  const own = points.map((each) => whole.data[each] as Trace);
  expect(own.every(({ customdata }) => customdata)).toBe(true);
  expect(own).toHaveLength(traces(0).filter(({ customdata }) => customdata).length);
  expect(style["marker.opacity"]).toEqual(own.map(({ marker }) => marker?.opacity));
  const { data, layout } = figure(scene(1));
  const without = (each: object) => ({ ...each, marker: undefined });
  expect(data.map(without)).toEqual(whole.data.map(without));
  expect(layout).toEqual(whole.layout);
});

test("bandwidth meets each peak at its ridge", () => {
  const [memory, ...roofs] = traces(0).filter(({ customdata }) => !customdata);
  expect((memory?.y[1] ?? 0) / (memory?.x[1] ?? 1)).toBeCloseTo(2e12);
  expect(roofs.map(({ x, y }) => (y[0] ?? 0) / (x[0] ?? 1))).toEqual([2e12, 2e12, 2e12]);
});

test("the axes are logarithmic with the decades' numbers, and the roofs are named", () => {
  const { xaxis, yaxis, annotations } = figure(scene(0)).layout as {
    xaxis: { type: string; tickvals: number[]; ticktext: string[] };
    yaxis: { type: string; ticktext: string[] };
    annotations: { text: string; textangle?: number }[];
  };
  expect([xaxis.type, yaxis.type]).toEqual(["log", "log"]);
  expect(xaxis.ticktext).toEqual(["0.1", "1", "10", "100", "1,000"]);
  expect(yaxis.ticktext).toContain("10 TFLOP/s");
  expect(annotations.map(({ text }) => text)).toEqual([
    "FP8 800 TFLOP/s",
    "BF16 400 TFLOP/s",
    "FP32 (no tensor core) 20 TFLOP/s",
    "memory 2 TB/s",
  ]);
  expect(annotations.at(-1)?.textangle).toBeLessThan(-10);
});
