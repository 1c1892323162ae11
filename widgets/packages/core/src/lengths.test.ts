import { describe, expect, test } from "vitest";
import { formatLengths, parseLengths } from "./lengths";

describe("lengths", () => {
  test.each([
    ["300, 1000, 77", [300, 1000, 77]],
    ["4096×3", [4096, 4096, 4096]],
    ["1x2 5*2;7", [1, 1, 5, 5, 7]],
    ["1e6, 1.5E3×2 2.0 1_000", [1_000_000, 1500, 1500, 2, 1000]],
  ])("%s", (text, lengths) => expect(parseLengths(text)).toEqual(lengths));

  test.each(["", "0", "12x0", "a", "-3", "1.5", "5x4097", "1e-3", "1.25e1", "9".repeat(300)])(
    "“%s” is none",
    (text) => {
      expect(parseLengths(text)).toBeNull();
    },
  );

  test("are written so that they are read again", () => {
    for (const lengths of [[1], [7, 7, 7, 8, 7], [4096, 4096, 1, 2, 2]])
      expect(parseLengths(formatLengths(lengths))).toEqual(lengths);
    expect(formatLengths([7, 7, 7, 8])).toBe("7×3, 8");
  });
});
