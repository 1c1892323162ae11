// The four operations of a tile as equations with the numbers of this moment.

import { format, h } from "@sglab/core";
import type { Recorded } from "./data";
import type { FormulaName } from "./formulas";
import { type Base, number, top as topText } from "./numbers";
import type { Registers } from "./registers";

export function registersView(
  recorded: Recorded,
  formula: FormulaName,
  base: Base,
  now: Registers | undefined,
  otherwise: () => HTMLElement,
): HTMLElement {
  if (!now) return otherwise();
  const rows = equations(recorded, formula, base, now).map(([name, general, values], i) => {
    const state = i + 1 < now.done ? "done" : i + 1 === now.done ? "now" : "next";
    const sign = { done: "✓", now: "▶", next: "·" }[state];
    return h(
      "tr",
      { "data-state": state, "aria-current": state === "now" ? "step" : undefined },
      h("td", { class: "sgs-sign", "aria-hidden": "true" }, sign),
      h("th", { scope: "row" }, name),
      h("td", {}, h("code", {}, general)),
      h("td", { class: "sgs-values" }, i < now.done ? values : ""),
    );
  });
  return h(
    "table",
    { class: "sgs-equations" },
    h("caption", { class: "sg-spoken" }, "The operations of this tile"),
    h("tbody", {}, ...rows),
  );
}

function equations(
  recorded: Recorded,
  formula: FormulaName,
  base: Base,
  { before, after, step }: Registers,
): [string, string, string][] {
  const e = base === "2" ? "exp2" : "exp";
  const tile = recorded.tiles[step] as Recorded["tiles"][number];
  const shifted = formula !== "unshifted";
  const rescaled = shifted && formula !== "no_rescale";
  const weight = shifted ? `${e}(s − m′)` : `${e}(s)`;
  const m = (value: number) => topText(value, base);
  const alpha = rescaled ? "α·" : "";
  const factor = {
    divides_each_tile: ` / d′`,
    softmax_times_exp: ` · softmax(s)`,
  }[formula as string];
  return [
    [
      "scores",
      scoreFormula(base, recorded.info.logitCap ?? 0),
      `${format.plural(tile.end - tile.start, "key")}, largest ${m(after.tileTop)}`,
    ],
    shifted
      ? ["maximum", "m′ = max(m, max s)", `max(${m(before.top)}, ${m(after.tileTop)}) = ${m(after.top)}`]
      : ["maximum", "none", "not used"],
    rescaled
      ? [
          "rescale",
          `α = ${e}(m − m′)`,
          `${e}(${m(before.top)} − ${bracket(m(after.top))}) = ${number(after.rescale)}`,
        ]
      : ["rescale", "left out", "α = 1 regardless of the maximum"],
    [
      "sum",
      `d′ = ${alpha}d + Σ ${weight}; O′ = ${alpha}O + ${weight}${factor ?? ""}·V`,
      `d′ = ${rescaled ? `${number(after.rescale)}·` : ""}${number(before.total)} + ${number(after.tileTotal)} = ${number(after.total)}`,
    ],
  ];
}

/** How a key's score comes about; a batch with a logit cap passes it through tanh. */
export function scoreFormula(base: Base, cap: number): string {
  const natural = cap > 0 ? `${number(cap)}·tanh(q·Kᵀ · scale / ${number(cap)})` : "q·Kᵀ · scale";
  return `s = ${natural}${base === "2" ? " · log2e" : ""}`;
}

function bracket(text: string): string {
  return text.startsWith("−") ? `(${text})` : text;
}
