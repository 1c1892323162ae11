import { expect, test } from "vitest";
import { safeText } from "./words";

test("which leaves an eviction left, and why", () => {
  expect(safeText(1, 0, 13)).toBe("Of the leaves that stay, 1 is locked.");
  expect(safeText(2, 1, 13)).toBe(
    "Of the leaves that stay, 2 are locked, 1 was used after 13 or not needed.",
  );
  expect(safeText(0, 3, 13)).toBe("Of the leaves that stay, 3 were used after 13 or not needed.");
  expect(safeText(0, 0, 13)).toBe("No leaf stays.");
});
