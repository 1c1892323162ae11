import { describe, expect, test } from "vitest";
import { e4m3, FORMATS, f32, firstNumber, numbersOf, short, textOf } from "./words";

test.each([
  [0x00, 0],
  [0x01, 2 ** -9],
  [0x08, 2 ** -6],
  [0x38, 1],
  [0xb8, -1],
  [0x7e, 448],
])("e4m3 0x%i is %f", (bits, value) => expect(e4m3(bits)).toBe(value));

test("e4m3 has NaN and no infinity: it rises to 448", () => {
  expect(e4m3(0x7f)).toBeNaN();
  expect(e4m3(0xff)).toBeNaN();
  for (let bits = 1; bits <= 0x7e; bits++) expect(e4m3(bits)).toBeGreaterThan(e4m3(bits - 1));
});

describe("a word", () => {
  test("reads from its lowest bits up", () => {
    expect(numbersOf(0x40003c00, "f16x2")).toEqual([1, 2]);
    expect(numbersOf(0x40003c00, "f16")).toEqual([1]);
    expect(numbersOf(0x40003f80, "bf16x2")).toEqual([1, 2]);
    expect(numbersOf(0x7e380800, "e4m3x4")).toEqual([0, 2 ** -6, 1, 448]);
    expect(numbersOf(0xffffffff, "s32")).toEqual([-1]);
    expect(numbersOf(-1, "hex")).toEqual([0xffffffff]);
    expect(f32(0x3fc00000)).toBe(1.5);
  });

  test("is coloured by the first of its numbers", () => {
    for (const format of FORMATS)
      for (const word of [0, 0x3f803c38, 0x7fc00000, -2])
        expect(firstNumber(word, format)).toEqual(numbersOf(word, format)[0]);
  });

  test("is written in the form that was asked for", () => {
    expect(textOf(0x40003c00, "f16x2")).toBe("1 2");
    expect(textOf(-5, "s32")).toBe("−5");
    expect(textOf(-1, "hex")).toBe("0xffffffff");
  });
});

test.each([
  [0, "0"],
  [-3, "−3"],
  [1 / 3, "0.333"],
  [0.5, "0.5"],
  [123.456, "123"],
  [1e-7, "1e−7"],
  [-1.5e-7, "−1.5e−7"],
  [-2.5e9, "−2.5e+9"],
  [Number.NaN, "NaN"],
  [Number.NEGATIVE_INFINITY, "−∞"],
])("%f is short as %s", (value, text) => expect(short(value)).toBe(text));
