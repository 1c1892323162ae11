import { expect, test } from "vitest";
import { keyOf, markedEntries } from "./arrays";

const info = (name: string, length: number) => ({ name, dtype: "int32", shape: [length] });
const marks = (length: number, marked: (index: number) => boolean) =>
  [...Array(length).keys()].filter(marked);

test("a sorted array's entry is found through the array that names its requests", () => {
  const arrays = ["num_splits_dynamic", "num_m_blocks", "varlen_batch_idx"].map((name) => info(name, 3));
  const [splits, , order] = arrays as [ReturnType<typeof info>, unknown, ReturnType<typeof info>];
  expect(keyOf(splits, arrays)).toBe(order);
  expect(keyOf(order, arrays)).toBe(order);
  expect(marks(3, markedEntries(splits, Int32Array.of(2, 0, 1), 3, 2))).toEqual([0]);
});

test("an array that is as long as the batch by chance is nobody's", () => {
  const arrays = [info("batch_indices", 9), info("plan_info", 9), info("work_indptr", 10)];
  for (const each of arrays.slice(1)) {
    expect(keyOf(each, arrays)).toBeUndefined();
    expect(marks(10, markedEntries(each, undefined, 9, 2))).toEqual([]);
  }
});

test("of a prefix sum, both ends are marked; of one entry per request, that one", () => {
  expect(marks(4, markedEntries(info("o_indptr", 4), undefined, 3, 1))).toEqual([1, 2]);
  expect(marks(3, markedEntries(info("num_kv_splits", 3), undefined, 3, 1))).toEqual([1]);
});

test("the zeros that pad a plan for a CUDA graph are not the first request's", () => {
  const padded = Int32Array.of(0, 1, 1, 0, 0);
  expect(marks(5, markedEntries(info("request_indices", 5), padded, 2, 0, 3))).toEqual([0]);
});
