// A made-up machine and points under its roofs, for tests.

import type { Machine, Mark, Origin } from "../protocol";

export const MACHINE: Machine = {
  name: "X1",
  product: "X1 SXM",
  ceilings: [
    ["memory", 2e12, "sheet"],
    ["bf16", 400e12, "sheet"],
    ["fp8", 800e12, "sheet"],
    ["int8", 800e12, "sheet"],
    ["fp32", 20e12, "sheet"],
    ["fp64", 20.5e12, "sheet"],
  ],
};

/** 1 MB of traffic; FLOPs of one kind; under both roofs of MACHINE. */
export function mark(origin: Origin, flops: number, more: Partial<Mark> = {}, kind = "bf16"): Mark {
  const peak = MACHINE.ceilings.find(([each]) => each === kind)?.[1] ?? 1;
  const seconds = Math.max(1e6 / 2e12, flops / peak);
  return {
    label: `${flops} of ${kind}`,
    origin,
    seconds: null,
    machine: "",
    series: "",
    how: "",
    flops: [[kind, flops]],
    bytes: 1e6,
    requestedBytes: 3e6,
    at: {
      X1: {
        kind,
        flops,
        intensity: flops / 1e6,
        attainable: flops / seconds,
        bound: flops / peak > 1e6 / 2e12 ? "compute" : "memory",
        seconds,
      },
    },
    opens: [],
    ...more,
  };
}
