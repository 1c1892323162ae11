import { expect, test } from "vitest";
import { spoken } from "./parts";

test("a button is called by what is written on it, and what it does", () => {
  expect(spoken("whole", "Show everything (0)")).toBe("whole: Show everything (0)");
  expect(spoken("all", "Light up all chunks")).toBe("Light up all chunks");
  expect(spoken("−", "Zoom out (-)")).toBe("Zoom out (-)");
});
