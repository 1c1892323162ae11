// What is selected, in words: the chosen formulas where they deserve one, and the selected split's partial.

import { format, h } from "@sglab/core";
import { type Choices, HELD, type Held } from "./choices";
import type { Recorded } from "./data";
import { FORMULAS, type Formula, type FormulaName, RULES } from "./formulas";
import { type Base, errorText, lse, number } from "./numbers";
import type { Result } from "./results";

export function formulaNotes({ formula, rule, base }: Choices): HTMLElement[] {
  return [note("Recurrence", FORMULAS[formula], base), note("Merge", RULES[rule], base)];
}

function note(kind: string, { label, text, why, right }: Formula, base: Base): HTMLElement {
  const shown = kind === "Recurrence" && base === "2" ? text.replaceAll("exp(", "exp2(") : text;
  return h(
    "div",
    { class: "sgs-formula" },
    h("div", { class: "sg-heading" }, `${kind}: ${label} `, verdict(right)),
    ...shown.split(" · ").map((line) => h("code", { class: "sgs-line-of" }, line)),
    h("p", {}, why),
  );
}

function verdict(right: boolean): HTMLElement {
  return h("span", { class: "sgs-verdict", "data-right": String(right) }, right ? "✓ right" : "✗ wrong");
}

export function splitDetails(
  recorded: Recorded,
  formula: FormulaName,
  split: number,
  result: Result,
  share: number,
  held: Held,
  hold: (held: Held) => void,
): HTMLElement {
  const steps = recorded.steps[split];
  const first = steps && recorded.tiles[steps.first];
  const last = steps && recorded.tiles[steps.last];
  const rows: [string, string][] = [
    [
      "keys",
      first && last
        ? `[${format.count(first.start)}, ${format.count(last.end)}): ${format.count(last.end - first.start)}`
        : "none: there are fewer keys than the splits before it could hold",
    ],
    ...(held === "kernel"
      ? []
      : ([["it stands for", "no keys: so float64 counts it"]] as [string, string][])),
    ["tiles", steps ? String(steps.last - steps.first + 1) : "0"],
    ["comes from", origin(recorded.question.kernel, formula, held, steps !== undefined)],
    ["LSE", lse(result.computed.lse, "e")],
    ["", lse(result.computed.lse, "2")],
    ["its weight", `exp(LSE − LSE of all) = ${number(share)}, by float64`],
    ["error of O", errorText(result.error)],
  ];
  const select = h("select", { class: "sg-select sgs-held", "aria-label": `Partial s${split} holds` });
  for (const [name, label] of Object.entries(HELD)) select.append(h("option", { value: name }, label));
  select.value = held;
  select.addEventListener("change", () => hold(select.value as Held));
  return h(
    "div",
    { class: "sgs-formula" },
    h("div", { class: "sg-heading" }, `Partial of split s${split}`),
    h(
      "dl",
      { class: "sgs-facts" },
      ...rows.flatMap(([term, text]) => [h("dt", {}, term), h("dd", {}, text)]),
    ),
    h("label", { class: "sgs-holds" }, "it holds", select),
  );
}

/** What leaves partials, and what merges them. */
const STAGES: Record<string, [string, string]> = {
  decode_attention_fwd: ["stage 1 of decode_attention_fwd", "The kernel's own stage 2"],
  mla_decode_sm100: ["mla_decode_sm100, one CTA pair", "The kernel's own combine"],
};

/** Which run a partial was taken from. */
function origin(kernel: string, formula: FormulaName, held: Held, hasKeys: boolean): string {
  if (held !== "kernel") return "you";
  if (!hasKeys) return "no request: what the buffer was filled with";
  return formula === "online" ? (STAGES[kernel]?.[0] ?? kernel) : "the recurrence above, run in torch";
}

/** The last sentence: how far the result is from the float64 answer. */
export function conclusion(
  recorded: Recorded,
  base: Base,
  result: Result | undefined,
  kernelError: number,
  changed: boolean,
): HTMLElement {
  if (!result) return h("p", { class: "sgs-note" }, "Not everything is merged yet.");
  const { computed, truth, error } = result;
  const stage2 = changed
    ? ""
    : ` ${STAGES[recorded.question.kernel]?.[1] ?? "The kernel"} stored O in ${recorded.info.dtype}: error ${errorText(kernelError)}, LSE ${lse(recorded.kernelLse, base)}.`;
  return h(
    "p",
    { class: "sgs-conclusion" },
    h("strong", {}, `Error of O ${errorText(error)}`),
    ` against float64; LSE ${lse(computed.lse, base)}, float64 says ${lse(truth.lse, base)}.`,
    stage2,
  );
}
