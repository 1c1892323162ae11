import { expect, test } from "vitest";
import { workOf } from "./data";
import { locate, selectionOf } from "./locate";

/** Request 0 in two splits on CTAs 5 and 6, request 1 on CTA 6. */
const COLUMNS = {
  request: [0, 0, 1],
  headBlock: [0, 0, 0],
  split: [0, 1, 0],
  tokenStart: [0, 512, 0],
  tokenEnd: [512, 900, 77],
  cta: [5, 6, 6],
  cluster: [5, 6, 6],
  sm: [1, 2, 2],
  slot: [0, 0, 0],
  wave: [0, 0, 0],
  start: [0, 0, 388],
  end: [512, 388, 465],
};
const WORK = workOf({ dtype: "int32", shape: [12, 3], data: Int32Array.from(Object.values(COLUMNS).flat()) });

test("a token, a split or a CTA means work units; nothing means none", () => {
  expect(locate(WORK, { request: 0, token: 511 })).toEqual([0]);
  expect(locate(WORK, { request: 0, token: 512 })).toEqual([1]);
  expect(locate(WORK, { request: 0, split: 1 })).toEqual([1]);
  expect(locate(WORK, { cta: 6 })).toEqual([1, 2]);
  expect(locate(WORK, { request: 0 })).toEqual([]);
  expect(locate(WORK, { warp: 3 })).toEqual([]);
});

test("a unit selects its tokens, or keeps the page that is in it", () => {
  expect(selectionOf(WORK, 1, {})).toEqual({ request: 0, split: 1, cta: 6, sm: 2, token: 512, tokens: 388 });
  const page = { request: 0, page: 9, token: 576, tokens: 64 };
  expect(selectionOf(WORK, 1, page)).toEqual({
    request: 0,
    split: 1,
    cta: 6,
    sm: 2,
    page: 9,
    token: 576,
    tokens: 64,
  });
  expect(selectionOf(WORK, 0, page)).not.toHaveProperty("page");
});
