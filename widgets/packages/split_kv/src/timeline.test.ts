import { describe, expect, test } from "vitest";
import type { Plans, Work } from "./data";
import { ganttLayout, indexRows, niceTicks, rowHeightFor, rowOf, unitAt, xOf } from "./gantt";
import type { Pane } from "./protocol";
import { timelineOf } from "./timeline";

type Unit = [request: number, sm: number, slot: number, wave: number, start: number, end: number];

function work(units: Unit[]): Work {
  const column = (i: number) => Int32Array.from(units, (unit) => unit[i] as number);
  return {
    size: units.length,
    request: column(0),
    sm: column(1),
    slot: column(2),
    wave: column(3),
    start: Float64Array.from(units, (unit) => unit[4]),
    end: Float64Array.from(units, (unit) => unit[5]),
  } as unknown as Work;
}

const PANE = { name: "a", title: "Plan A", smCount: 2, ctasPerSm: 2 } as Pane;
// SM 0 runs two units one after the other, and one beside them; SM 1 one.
const A = work([
  [0, 0, 0, 0, 0, 100],
  [1, 0, 1, 0, 0, 60],
  [0, 0, 0, 1, 100, 150],
  [1, 1, 0, 0, 0, 100],
]);
const B = work([
  [0, 0, 0, 0, 0, 80],
  [1, 0, 0, 1, 80, 120],
]);

function made(works: Work[], selected?: number) {
  const shown = works.map((each, i) => ({
    pane: { ...PANE, name: "ab"[i], title: `Plan ${"AB"[i]}` },
    work: each,
  }));
  return timelineOf(
    { shown } as unknown as Plans,
    () => selected,
    () => 0,
  );
}

describe("the steps of plans", () => {
  test("are the moments at which something starts or ends, of all of them", () => {
    expect(Array.from(made([A]).moments)).toEqual([0, 60, 100, 150]);
    expect(Array.from(made([A, B]).moments)).toEqual([0, 60, 80, 100, 120, 150]);
    expect([0, 1, 4].map(made([A]).momentOf)).toEqual([-1, 0, 150]);
  });

  test("say how much runs and is done", () => {
    const { track } = made([A]);
    expect(track.describe(0)).toBe("Nothing is launched yet.");
    expect(track.describe(1)).toBe("Plan A: 3 running, 0 of 4 work units done.");
    expect(track.describe(3)).toBe("Plan A: 1 running, 3 of 4 work units done.");
    expect(track.describe(4)).toBe("Plan A: 0 running, 4 of 4 work units done.");
  });

  test("mark where rounds begin, each plan its own", () => {
    expect(made([A]).track.marks).toEqual([
      { at: 1, label: "round 1 begins" },
      { at: 3, label: "round 2 begins" },
    ]);
    expect(made([A, B]).track.marks).toEqual([
      { at: 1, label: "round 1 begins" },
      { at: 3, label: "round 2 begins: Plan B" },
      { at: 4, label: "round 2 begins: Plan A" },
    ]);
  });

  test("name their moment", () => {
    const { track } = made([work([[0, 0, 0, 0, 0, 1]])]);
    expect([0, 1, 2].map((position) => track.time?.(position))).toEqual([
      "before launch",
      "0 KV tokens",
      "1 KV token",
    ]);
  });

  test("of a selected request are where its work starts", () => {
    expect(Array.from(made([A], 0).track.eventsOfSelection?.() ?? [])).toEqual([1, 3]);
    expect(made([A]).track.eventsOfSelection?.()).toBeUndefined();
  });
});

describe("where work is in a pane", () => {
  const layout = ganttLayout(PANE, 256, 10, 200);
  const { plot } = layout;
  const index = indexRows(A, layout.rows, 2);
  const at = (time: number, row: number) =>
    unitAt(layout, A, index, xOf(layout, time), plot.y + row * 10 + 5);

  test("is a row per slot of an SM, in order of time", () => {
    expect(layout.rows).toBe(4);
    expect([0, 1, 2, 3].map((i) => rowOf(A, i, 2))).toEqual([0, 1, 0, 2]);
    expect(Array.from(index.items.subarray(index.indptr[0], index.indptr[1]))).toEqual([0, 2]);
  });

  test("is what is under a point: from its start to just before its end", () => {
    expect([at(0, 0), at(99, 0), at(101, 0), at(149, 0)]).toEqual([0, 0, 2, 2]);
    expect([at(30, 1), at(30, 2)]).toEqual([1, 3]);
  });

  test("is nothing where no work is, nor outside", () => {
    expect([at(70, 1), at(160, 0), at(10, 3), at(10, 4), at(-5, 0), at(10, -1)]).toEqual([
      -1, -1, -1, -1, -1, -1,
    ]);
  });

  test("labels no more SMs than there is room for", () => {
    expect(layout.labels.map(({ text }) => text)).toEqual(["SM 0", "SM 1"]);
    const many = ganttLayout({ ...PANE, smCount: 132, ctasPerSm: 1 }, 256, 2, 200);
    expect(many.labels[1]).toEqual({ row: 8, text: "SM 8" }); // 16 pixels on
    expect(rowHeightFor(132, 264)).toBe(2);
    expect([rowHeightFor(1000, 264), rowHeightFor(2, 264)]).toEqual([1, 22]);
  });
});

test("ticks are round numbers from 0 to the end, about as many as wanted", () => {
  expect(niceTicks(1000, 5)).toEqual([0, 200, 400, 600, 800, 1000]);
  expect(niceTicks(130, 4)).toEqual([0, 50, 100]);
  expect(niceTicks(3, 10)).toEqual([0, 1, 2, 3]); // no fractions of tokens
  expect(niceTicks(0, 4)).toEqual([0]);
});

test("where every planner refuses, nothing waits for a launch", () => {
  const plans = { shown: [{ pane: { ...PANE, error: "num_kv_heads: expected 1" }, work: null }] };
  const { track } = timelineOf(
    plans as unknown as Plans,
    () => undefined,
    () => 0,
  );
  expect(track.describe(0)).toContain("each pane says why");
  expect(track.name?.(0)).toBe("no plan");
  expect(track.time).toBeUndefined();
});
