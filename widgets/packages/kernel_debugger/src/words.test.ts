import { expect, test } from "vitest";
import { withoutRegisters } from "./words";

test("an empty table of registers says what would fill it", () => {
  expect(withoutRegisters(false, false)).toContain("No warp is running");
  expect(withoutRegisters(true, true)).toContain("has exited");
  expect(withoutRegisters(true, false)).toContain("step (→)");
});
