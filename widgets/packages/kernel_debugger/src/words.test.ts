import { expect, test } from "vitest";
import { errorText, withoutRegisters } from "./words";

test("an empty table of registers says what would fill it", () => {
  expect(withoutRegisters(false, false)).toContain("No warp is running");
  expect(withoutRegisters(true, true)).toContain("has exited");
  expect(withoutRegisters(true, false)).toContain("step (→)");
});

test("what a saved page lacks is said without words of the script", () => {
  const missing = new TypeError("Cannot read properties of undefined (reading 'map')");
  expect(errorText(missing, false)).toMatch(/another version wrote it, or it is damaged/);
  expect(errorText(missing, true)).toBe(missing.message);
  expect(errorText(new Error("This saved trace holds no tensor named moments."), false)).toMatch(/moments/);
});
