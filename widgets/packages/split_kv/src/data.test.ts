import { expect, test } from "vitest";
import { workOf } from "./data";

test("work comes as columns", () => {
  const data = Int32Array.from({ length: 24 }, (_, i) => i);
  const work = workOf({ dtype: "int32", shape: [12, 2], data });
  expect(work.size).toBe(2);
  expect(Array.from(work.request)).toEqual([0, 1]);
  expect(Array.from(work.end)).toEqual([22, 23]);
});
