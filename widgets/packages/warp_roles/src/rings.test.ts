import type { Pipeline } from "@sglab/launch/data";
import type { BarrierSteps } from "@sglab/launch/progress";
import { expect, test } from "vitest";
import { ringAt } from "./rings";

const barrier = (arrivals: number[], ends: number[], passes: number[]) =>
  ({ arrivals, ends, passes }) as unknown as BarrierSteps;
// stage 0: filled at 3, read at 5, freed at 7; filled again from 9 on. Stage 1 is never touched.
const STEPS = [
  barrier([2, 3, 9], [3], [5]),
  barrier([], [], []),
  barrier([7], [7], [9]),
  barrier([], [], []),
];
const PIPELINE = { full: [0, 1], empty: [2, 3] } as unknown as Pipeline;
const stateAt = (step: number, pipeline = PIPELINE) => ringAt(pipeline, STEPS, step).stages[0]?.state;

test("a stage is empty, filled, full, read, free again, and filled again", () => {
  expect([1, 2, 3, 5, 7, 9].map((step) => stateAt(step))).toEqual([
    "empty",
    "filling",
    "full",
    "read",
    "empty",
    "filling",
  ]);
});

test("where no barrier frees it, a stage that was read goes on holding what it holds", () => {
  const unfreed = { full: [0], empty: [] } as unknown as Pipeline;
  expect([5, 7].map((step) => stateAt(step, unfreed))).toEqual(["read", "read"]);
});

test("producers and consumers stand at the stage to which they turned last", () => {
  const at = (step: number) => {
    const { producer, consumer } = ringAt(PIPELINE, STEPS, step);
    return [producer, consumer];
  };
  expect([at(1), at(2), at(5)]).toEqual([
    [-1, -1],
    [0, -1],
    [0, 0],
  ]);
});
