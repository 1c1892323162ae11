import { expect, test } from "vitest";
import { divide } from "./heights";

const many = { pictures: 230, arrays: 220, requests: 32, request: 20, matrices: 2, rows: 40, row: 22 };

test("on a laptop the arrays are in sight below the pictures: two rows of each, and as many requests as fit", () => {
  const { requests, rows } = divide({ ...many, room: 640, beside: false });
  expect(rows).toBe(2);
  expect(requests).toBe(640 - 230 - 220 - 2 * 2 * 22);
  expect(230 + 220 + requests + rows * 44).toBeLessThanOrEqual(640);
});

test("where there is no room everything keeps its least", () => {
  expect(divide({ ...many, room: 240, beside: false })).toEqual({ requests: 100, rows: 2 });
  expect(divide({ ...many, room: 240, beside: true })).toEqual({ requests: 100, rows: 2 });
});

test("with much room, as in print, there are twelve requests and four rows", () => {
  expect(divide({ ...many, room: 4000, beside: false })).toEqual({ requests: 240, rows: 4 });
});

test("side by side, both columns fill the height", () => {
  const { requests, rows } = divide({ ...many, room: 640, beside: true });
  expect(requests).toBe(410);
  expect(rows).toBe(9);
});

test("a few requests take no more than they need", () => {
  const few = { ...many, requests: 2, request: 34, rows: 2 };
  expect(divide({ ...few, room: 640, beside: false })).toEqual({ requests: 68, rows: 2 });
  expect(divide({ ...few, room: 640, beside: true })).toEqual({ requests: 68, rows: 2 });
});
