// What the stages of a pipeline hold at a step. Pure.

import type { Pipeline } from "@sglab/launch/data";
import { type BarrierSteps, endedBy, lastUpTo } from "@sglab/launch/progress";

export type StageState = "empty" | "filling" | "full" | "read";

export interface Stage {
  state: StageState;
  /** How often it has been filled. */
  filled: number;
}

export interface Ring {
  stages: Stage[];
  /** The stage that the producers turned to last, and the consumers; -1: none yet. */
  producer: number;
  consumer: number;
}

export function ringAt(pipeline: Pipeline, steps: readonly BarrierSteps[], step: number): Ring {
  const stages = pipeline.full.map((full, i) =>
    stageAt(steps[full] as BarrierSteps, steps[pipeline.empty[i] as number], step),
  );
  return {
    stages,
    producer: latest(pipeline.full.map((full) => lastUpTo((steps[full] as BarrierSteps).arrivals, step))),
    consumer: latest(pipeline.full.map((full) => lastUpTo((steps[full] as BarrierSteps).passes, step))),
  };
}

function stageAt(full: BarrierSteps, empty: BarrierSteps | undefined, step: number): Stage {
  const filled = endedBy(full, step);
  const freed = empty ? endedBy(empty, step) : undefined;
  const filledAt = lastUpTo(full.ends, step);
  const read = lastUpTo(full.passes, step) >= filledAt && filled > 0;
  const arriving = lastUpTo(full.arrivals, step) > filledAt;
  if (arriving) return { state: "filling", filled };
  // without a barrier that frees it, a stage that was read may be filled again
  const holds = freed === undefined ? filled > 0 : filled > freed;
  if (!holds) return { state: "empty", filled };
  return { state: read ? "read" : "full", filled };
}

function latest(steps: number[]): number {
  const last = Math.max(...steps);
  return last > 0 ? steps.indexOf(last) : -1;
}

export const STATE_WORDS: Record<StageState, string> = {
  empty: "empty",
  filling: "being filled",
  full: "full",
  read: "being read",
};
