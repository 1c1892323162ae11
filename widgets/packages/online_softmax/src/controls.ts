// The toolbar: formulas, order of the merges, base; and with Python, which head is recorded.

import { type Disposer, h } from "@sglab/core";
import type { Choices } from "./choices";
import type { Recorded } from "./data";
import { FORMULAS, type Formula, type FormulaName, RULES, type RuleName } from "./formulas";
import { ORDERS, type Order } from "./merge";
import type { Base } from "./numbers";
import type { Question } from "./protocol";

const ORDERS_OF_KEYS = {
  stored: "as stored",
  rising: "smallest score first",
  falling: "largest score first",
  masked: "split s0 masked, −inf",
};
const KERNELS = {
  decode_attention_fwd: "decode_attention_fwd",
  mla_decode_sm100: "mla_decode_sm100, emulated",
};
const FACTORS = [0.25, 1, 4, 16, 64];

export function makeControls(
  disposer: Disposer,
  live: boolean,
  choose: (change: Partial<Choices>) => void,
  ask: (change: Partial<Question>) => void,
): { parts: HTMLElement[]; more: HTMLElement[]; show(choices: Choices, recorded: Recorded): void } {
  const formula = formulaSelect("Recurrence", FORMULAS, (value) => choose({ formula: value as FormulaName }));
  const rule = formulaSelect("Merge", RULES, (value) => choose({ rule: value as RuleName }));
  const order = h("select", { class: "sg-select", "aria-label": "Order of merges" });
  for (const [name, label] of Object.entries(ORDERS)) order.append(h("option", { value: name }, label));
  disposer.listen(order, "change", () => choose({ order: order.value as Order }));
  const bases = (["e", "2"] as Base[]).map((base) => {
    const text = base === "e" ? "natural" : "base 2";
    const button = h(
      "button",
      { type: "button", class: "sg-button", title: "Only the unit of m and LSE changes" },
      text,
    );
    disposer.listen(button, "click", () => choose({ base }));
    return { base, button };
  });
  const request = numberInput(disposer, "request", (value) => ask({ request: value }));
  const head = numberInput(disposer, "head", (value) => ask({ head: value }));
  const splits = numberInput(disposer, "splits", (value) => ask({ num_splits: value }));
  const tile = numberInput(disposer, "tile", (value) => ask({ tile: value }));
  const factor = h("select", {
    class: "sg-select",
    "aria-label": "Scores times",
    title: "Multiplies sm_scale and runs everything again",
  });
  disposer.listen(factor, "change", () => ask({ scale_by: Number(factor.value) }));

  const keys = askSelect(disposer, "Keys", ORDERS_OF_KEYS, (order) => ask({ order }));
  const kernel = askSelect(disposer, "Partials of", KERNELS, (picked) => ask({ kernel: picked }));

  const group = (...parts: HTMLElement[]) => h("span", { class: "sgs-group" }, ...parts);
  const parts: HTMLElement[] = [h("label", {}, "recurrence", formula), h("label", {}, "merge", rule)];
  const more: HTMLElement[] = [
    h("label", {}, "order of merges", order),
    h(
      "span",
      { class: "sgs-group", role: "group", "aria-label": "Base of m and LSE" },
      ...bases.map(({ button }) => button),
    ),
  ];
  if (live)
    more.push(
      group(request.label, head.label, tile.label, h("label", {}, "scores ×", factor)),
      h("label", {}, "keys", keys),
      h("label", {}, "partials of", kernel),
    );
  if (live) parts.push(splits.label);
  return {
    parts,
    more,
    show(choices, { question, info }) {
      formula.value = choices.formula;
      rule.value = choices.rule;
      order.value = choices.order;
      for (const { base, button } of bases)
        button.setAttribute("aria-pressed", String(base === choices.base));
      request.show(question.request, 0, info.batchSize - 1);
      head.show(question.head, 0, info.numHeads - 1);
      splits.show(question.num_splits, 1, info.maxSplits);
      tile.show(question.tile, 1);
      for (const option of kernel.options) {
        const name = option.value as keyof typeof KERNELS;
        option.disabled = !info.kernels.includes(name);
        const why = info.refused?.[name];
        option.textContent = option.disabled && why ? `${name}: ${why}` : KERNELS[name];
      }
      for (const option of keys.options)
        option.disabled = option.value === "masked" && question.kernel === "mla_decode_sm100";
      keys.value = question.order;
      kernel.value = question.kernel;
      const known = FACTORS.includes(question.scale_by) ? FACTORS : [...FACTORS, question.scale_by];
      factor.replaceChildren(...known.map((value) => h("option", { value }, String(value))));
      factor.value = String(question.scale_by);
    },
  };
}

function formulaSelect(
  label: string,
  all: Record<string, Formula>,
  chosen: (name: string) => void,
): HTMLSelectElement {
  const select = h("select", { class: "sg-select sgs-recurrence", "aria-label": label });
  for (const right of [true, false])
    select.append(
      h(
        "optgroup",
        { label: right ? "right" : "wrong: beside it says what goes wrong" },
        ...Object.entries(all)
          .filter(([, each]) => each.right === right)
          .map(([name, each]) => h("option", { value: name }, right ? each.label : `✗ ${each.label}`)),
      ),
    );
  select.addEventListener("change", () => chosen(select.value));
  return select;
}

/** A menu whose choice is recorded again in Python. */
function askSelect(
  disposer: Disposer,
  label: string,
  options: Record<string, string>,
  chosen: (value: string) => void,
): HTMLSelectElement {
  const all = Object.entries(options).map(([value, text]) => h("option", { value }, text));
  const select = h("select", { class: "sg-select", "aria-label": label }, ...all);
  disposer.listen(select, "change", () => chosen(select.value));
  return select;
}

function numberInput(
  disposer: Disposer,
  name: string,
  changed: (value: number) => void,
): { label: HTMLElement; show(value: number, least: number, most?: number): void } {
  const input = h("input", { type: "number", class: "sg-field sgs-number", "aria-label": name });
  disposer.listen(input, "change", () => changed(Number(input.value)));
  return {
    label: h("label", {}, name, input),
    show(value, least, most) {
      input.min = String(least);
      if (most !== undefined) input.max = String(most);
      input.value = String(value);
    },
  };
}
