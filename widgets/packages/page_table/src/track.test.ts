import { expect, test } from "vitest";
import { trackOf } from "./track";

const MODEL = {
  kernel: "flashmla",
  run: { moments: 9 },
  stepEnds: Int32Array.of(2, 5, 9),
  programEnds: Int32Array.of(5, 9),
  requests: [
    { name: "r0", index: 0 },
    { name: "r1", index: 1 },
  ],
};
const track = (request?: number, kernel = "flashmla") =>
  trackOf({ ...MODEL, kernel } as never, { selected: { request }, transport: { previous: 0 } } as never);

test("steps are an entry, a vector step, a request; requests' ends are marked", () => {
  const { length, granularities, marks } = track();
  expect(length).toBe(9);
  expect(granularities.map(({ label }) => label)).toEqual(["one page", "vector step", "request"]);
  expect(granularities[2]?.stops).toEqual(Int32Array.of(5, 9));
  expect(marks).toEqual([
    { at: 5, label: "r0 done" },
    { at: 9, label: "r1 done" },
  ]);
  expect(track(undefined, "flashinfer").granularities[0]?.label).toBe("one token");
});

test("a selected request's moments are those of its program", () => {
  expect(Array.from(track(0).eventsOfSelection?.() ?? [])).toEqual([1, 2, 3, 4, 5]);
  expect(Array.from(track(1).eventsOfSelection?.() ?? [])).toEqual([6, 7, 8, 9]);
});

test("without a selection, or with a request of another batch, there are none", () => {
  expect(track().eventsOfSelection?.()).toBeUndefined();
  expect(track(2).eventsOfSelection?.()).toBeUndefined();
});
