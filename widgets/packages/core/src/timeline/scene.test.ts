import { expect, test } from "vitest";
import { xOf } from "./scene";

test.each([
  [100, 0],
  [150, 400],
  [200, 800],
  [90, -80],
])("moment %i of 100 to 200 is at pixel %i of 800", (at, x) => {
  expect(xOf({ range: { start: 100, end: 200 }, width: 800 }, at)).toBeCloseTo(x);
});
