import { expect, test } from "vitest";
import { visible } from "./picture";
import { tallest } from "./pool";
import type { Op } from "./protocol";

const op = (free: number): Op => ({
  kind: "insert",
  step: 0,
  pool: [free, 0, 0],
  clock: 0,
  set: [],
  rid: -1,
});

test("a pool of which little is used is drawn as high as what is used", () => {
  expect(tallest([op(99032), op(98916), op(98920)], 99032)).toBe(116);
  expect(tallest([op(400), op(16)], 400)).toBe(400);
  expect(tallest([op(400)], 400)).toBe(400); // nothing is used yet
});

test("controls are drawn as marks", () => {
  expect(visible("a b\n\x03\x7f")).toBe("a\u00a0b⏎··");
});
