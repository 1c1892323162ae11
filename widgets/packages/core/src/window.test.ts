import type { Tensor } from "@sglab/protocol";
import { expect, test } from "vitest";
import { TensorWindow } from "./window";

/** Ten rows of two, as of a revision; answers come when the test lets them. */
function rows() {
  const asked: { start: number; stop: number; answer: () => void; fail: () => void }[] = [];
  const state = { revision: 1, arrived: 0, errors: [] as unknown[] };
  const source = {
    get: () => state.revision,
    slice: (_: "rows", start: number, stop: number) =>
      new Promise<Tensor>((resolve, reject) => {
        const last = Math.min(stop, 10);
        const data = Int32Array.from(
          { length: 2 * (last - start) },
          (_, i) => 100 * state.revision + 2 * start + i,
        );
        const answer = () => resolve({ dtype: "int32", shape: [last - start, 2], data });
        asked.push({ start, stop, answer, fail: () => reject(new Error("lost")) });
      }),
  };
  const window = new TensorWindow(
    source as never,
    "rows",
    4,
    () => {
      state.arrived += 1;
    },
    (error) => state.errors.push(error),
  );
  return { asked, state, window };
}
const settled = () => new Promise((done) => setTimeout(done));

test("requests a chunk once, when one of its rows is first looked at", async () => {
  const { asked, state, window } = rows();
  expect(window.row(5)).toBeUndefined();
  expect(window.row(6)).toBeUndefined();
  expect(asked.map(({ start, stop }) => [start, stop])).toEqual([[4, 8]]);
  asked[0]?.answer();
  await settled();
  expect(state.arrived).toBe(1);
  expect(Array.from(window.row(5) ?? [])).toEqual([110, 111]);
  expect(window.value(6, 1)).toBe(113);
});

test("a row after the last does not exist", async () => {
  const { asked, window } = rows();
  window.row(9);
  asked[0]?.answer();
  await settled();
  expect(window.value(9, 1)).toBe(119);
  expect(window.row(10)).toBeUndefined();
});

test("after a new revision the old rows are shown until the new ones are there", async () => {
  const { asked, state, window } = rows();
  window.row(0);
  asked[0]?.answer();
  await settled();
  state.revision = 2;
  window.follow();
  expect(asked).toHaveLength(2);
  expect(window.value(0)).toBe(100);
  asked[1]?.answer();
  await settled();
  expect(window.value(0)).toBe(200);
  window.follow();
  expect(asked).toHaveLength(2);
});

test("an answer that was overtaken by another revision is not shown", async () => {
  const { asked, state, window } = rows();
  window.row(0);
  state.revision = 2;
  window.row(0);
  asked[1]?.answer();
  await settled();
  asked[0]?.answer();
  await settled();
  expect(window.value(0)).toBe(200);
});

test("an error is reported", async () => {
  const { asked, state, window } = rows();
  window.row(0);
  asked[0]?.fail();
  await settled();
  expect(state.errors).toEqual([new Error("lost")]);
});
