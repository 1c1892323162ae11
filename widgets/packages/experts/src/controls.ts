// The toolbar: which pass and layer; behind *more* the sizes of blocks and ranks.

import { type Disposer, format, h } from "@sglab/core";
import type { Recorded } from "./data";
import type { Shown } from "./protocol";

export function makeControls(
  disposer: Disposer,
  ask: (change: Partial<Shown>) => void,
): { parts: HTMLElement[]; more: HTMLElement[]; show(recorded: Recorded): void } {
  const select = (label: string, name: keyof Shown) => {
    const made = h("select", { class: "sg-select", "aria-label": label });
    disposer.listen(made, "change", () => ask({ [name]: Number(made.value) }));
    return made;
  };
  const pass = select("Pass", "step");
  const layer = select("Layer", "layer");
  const ranks = h("select", { class: "sg-select", "aria-label": "Ranks" });
  // a copy each: other numbers of copies might not divide by the new ranks
  disposer.listen(ranks, "change", () => ask({ ranks: Number(ranks.value), redundant: Number(ranks.value) }));
  const redundant = select("Redundant copies", "redundant");
  const block = select("Block size", "block");
  const fill = (
    into: HTMLSelectElement,
    values: readonly number[],
    chosen: number,
    name: (value: number) => string,
  ) => {
    const all = values.includes(chosen) ? values : [...values, chosen].sort((a, b) => a - b);
    into.replaceChildren(...all.map((value) => h("option", { value }, name(value))));
    into.value = String(chosen);
  };
  return {
    parts: [h("label", {}, "pass", pass), h("label", {}, "layer", layer), h("label", {}, "ranks", ranks)],
    more: [h("label", {}, "redundant copies", redundant), h("label", {}, "rows of a block", block)],
    show({ shown, passes, layers, rule }) {
      const { experts } = rule;
      const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);
      fill(pass, upTo(passes.length), shown.step, (at) => {
        const one = passes[at];
        return one
          ? `${one.number} · ${one.mode.toLowerCase().replaceAll("_", " ")}, ${format.plural(one.tokens, "token")}`
          : "";
      });
      fill(layer, upTo(layers.length), shown.layer, (at) => String(layers[at]?.layer));
      const divisors = upTo(experts + 1).filter((ranks) => ranks > 0 && experts % ranks === 0 && ranks <= 64);
      fill(ranks, divisors, shown.ranks, String);
      fill(
        redundant,
        [0, 1, 2, 3, 4].map((each) => each * shown.ranks),
        shown.redundant,
        String,
      );
      fill(block, rule.blocks, shown.block, String);
    },
  };
}
