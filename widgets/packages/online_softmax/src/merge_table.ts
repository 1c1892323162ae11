// One merge with its numbers: each partial's LSE, what its O was multiplied by, and what it should have been.

import { h } from "@sglab/core";
import type { Plan } from "./merge";
import { type Base, number } from "./numbers";
import type { Result } from "./results";
import { nodeName } from "./steps";

const ENOUGH = 1e-3;

export function mergeTable(
  results: Result[],
  plan: Plan,
  splits: number,
  index: number,
  base: Base,
): HTMLElement {
  const merged = results[splits + index] as Result;
  const lse = (result: Result) =>
    number(base === "2" ? result.computed.lse * Math.LOG2E : result.computed.lse);
  const rows = (plan[index] as number[]).map((node, i) => {
    const part = results[node] as Result;
    const [mine, right] = [merged.shares[i] as number, merged.trueShares[i] as number];
    const wrong = !(Math.abs(mine - right) <= ENOUGH * Math.max(1, right));
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, nodeName(part.leaves)),
      h("td", {}, lse(part)),
      h("td", { "data-wrong": wrong }, `${number(mine)}${wrong ? " ▲" : ""}`),
      h("td", {}, number(right)),
    );
  });
  const add = (values: number[]) => number(values.reduce((sum, value) => sum + value, 0));
  return h(
    "table",
    { class: "sgs-merge" },
    h("caption", { class: "sg-spoken" }, "This merge"),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ...[
          "merging",
          base === "2" ? "LSE, base 2" : "LSE, natural",
          "its O is multiplied by",
          "float64 says",
        ].map((text) => h("th", { scope: "col" }, text)),
      ),
    ),
    h(
      "tbody",
      {},
      ...rows,
      h(
        "tr",
        { class: "sgs-sum" },
        h("th", { scope: "row" }, `→ ${nodeName(merged.leaves)}`),
        h("td", {}, lse(merged)),
        h("td", {}, add(merged.shares)),
        h("td", {}, add(merged.trueShares)),
      ),
    ),
  );
}
