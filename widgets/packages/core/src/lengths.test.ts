import { describe, expect, test } from "vitest";
import { formatLengths, parseLengths } from "./lengths";

describe("lengths", () => {
  test.each([
    ["300, 1000, 77", [300, 1000, 77]],
    ["4096×3", [4096, 4096, 4096]],
    ["1x2 5*2;7", [1, 1, 5, 5, 7]],
  ])("%s", (text, lengths) => expect(parseLengths(text)).toEqual(lengths));

  test.each(["", "0", "12x0", "a", "-3", "1.5", "5x4097"])("“%s” is none", (text) => {
    expect(parseLengths(text)).toBeNull();
  });

  test("are written so that they are read again", () => {
    for (const lengths of [[1], [7, 7, 7, 8, 7], [4096, 4096, 1, 2, 2]])
      expect(parseLengths(formatLengths(lengths))).toEqual(lengths);
    expect(formatLengths([7, 7, 7, 8])).toBe("7×3, 8");
  });
});
