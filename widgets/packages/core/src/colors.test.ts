import { expect, test } from "vitest";
import { inkOn, lookOf, OKABE_ITO, ROLE_LOOKS } from "./colors";

test("64 requests look different, and the hatch distinguishes those of one hue", () => {
  const looks = Array.from({ length: 64 }, (_, i) => lookOf(i, false));
  expect(new Set(looks.map(({ fill, hatch }) => `${fill} ${hatch}`)).size).toBe(64);
  expect(looks.slice(0, 8).map(({ fill }) => fill)).toEqual([...OKABE_ITO]);
  expect(looks.slice(0, 8).every(({ hatch }) => hatch === "none")).toBe(true);
  expect(lookOf(64, false)).toEqual(lookOf(0, false));
});

test("black turns light on a dark ground, and nothing else changes", () => {
  for (let i = 0; i < 16; i++) {
    const [light, dark] = [lookOf(i, false), lookOf(i, true)];
    expect(dark.fill).toBe(light.fill === "#000000" ? "#f5f5f5" : light.fill);
    expect(dark.hatch).toBe(light.hatch);
  }
});

test("ink reads on its fill: a contrast of 4.5 or more", () => {
  const luminance = (color: string) => {
    const [r, g, b] = [1, 3, 5].map((at) => Number.parseInt(color.slice(at, at + 2), 16) / 255);
    const linear = (c = 0) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  };
  const fills = [...OKABE_ITO, "#f5f5f5", ...Object.values(ROLE_LOOKS).map(({ fill }) => fill)];
  for (const fill of fills) {
    const [high, low] = [luminance(fill), luminance(inkOn(fill))].sort((a, b) => b - a) as [number, number];
    expect((high + 0.05) / (low + 0.05)).toBeGreaterThanOrEqual(4.5);
  }
});

test("no two roles share hue and hatch", () => {
  const looks = Object.values(ROLE_LOOKS).map(({ fill, hatch }) => `${fill} ${hatch}`);
  expect(new Set(looks).size).toBe(looks.length);
});
