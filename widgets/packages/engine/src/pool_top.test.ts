import { expect, test } from "vitest";
import { poolTop } from "./pool_top";

test("a pool of which little is used is drawn as high as what is used", () => {
  expect(poolTop(116, 99032)).toBe(116);
  expect(poolTop(384, 400)).toBe(400);
  expect(poolTop(0, 400)).toBe(400); // nothing is used yet
});
