import { expect, test } from "vitest";
import { HELD } from "./held";

/** WCAG 2: relative luminance, which is what greyscale keeps of a colour. */
function luminance(hex: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const share = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

test.each(["light", "dark"] as const)("what holds the pool is told apart without colour: %s", (theme) => {
  const [one, other] = [HELD.private, HELD.protected].map((each) => luminance(each[theme]) + 0.05) as [
    number,
    number,
  ];
  expect(Math.max(one, other) / Math.min(one, other)).toBeGreaterThan(1.5);
});
