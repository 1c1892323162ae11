import { expect, test } from "vitest";
import { visible } from "./picture";

test("controls are drawn as marks", () => {
  expect(visible("a b\n\x03\x7f")).toBe("a\u00a0b⏎··");
});
