import { expect, test } from "vitest";
import { colorOf, cssGradient, inkFor, NAN_COLOR, NAN_PIXEL, pixelOf } from "./cividis";

const RANGE = { low: -1, high: 1 };
const channels = (color: string) => (color.match(/\d+/g) as string[]).map(Number) as [number, number, number];

test("runs from cividis's darkest blue to its lightest yellow, and stays there outside", () => {
  expect(colorOf(-1, RANGE)).toBe("rgb(0 34 78)");
  expect(colorOf(1, RANGE)).toBe("rgb(253 231 55)");
  expect(colorOf(-7, RANGE)).toBe(colorOf(-1, RANGE));
  expect(colorOf(Number.POSITIVE_INFINITY, RANGE)).toBe(colorOf(1, RANGE));
});

test("gets lighter at every step, so that it reads in grey", () => {
  const lightness = Array.from({ length: 101 }, (_, i) => {
    const [red, green, blue] = channels(colorOf(-1 + i / 50, RANGE));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  });
  for (let i = 1; i < lightness.length; i++) expect(lightness[i]).toBeGreaterThan(lightness[i - 1] as number);
});

test("a pixel is the same colour as A B G R", () => {
  for (const value of [-1, -0.3, 0, 0.77, 1]) {
    const [red, green, blue] = channels(colorOf(value, RANGE));
    expect(pixelOf(value, RANGE)).toBe(((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0);
  }
});

test("NaN has a colour of its own; a range of nothing the middle one", () => {
  expect(colorOf(Number.NaN, RANGE)).toBe(NAN_COLOR);
  expect(pixelOf(Number.NaN, RANGE)).toBe(NAN_PIXEL);
  expect(colorOf(3, { low: 3, high: 3 })).toBe(colorOf(0, { low: -1, high: 1 }));
});

test("ink is white on the dark half and black on the light one", () => {
  expect([inkFor(-1, RANGE), inkFor(1, RANGE), inkFor(Number.NaN, RANGE)]).toEqual([
    "#ffffff",
    "#000000",
    "#ffffff",
  ]);
});

test("the legend's gradient begins and ends as the map does", () => {
  expect(cssGradient()).toMatch(/^linear-gradient\(to right, #00224e, .*, #fde737\)$/);
});
