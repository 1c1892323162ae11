// Who holds which part of each weight: a column per rank.

import { cssBackground, format, h, lookOf } from "@sglab/core";
import { layerOf, type Recorded } from "./data";
import type { Held, Part, Weight } from "./protocol";

export const KIND_WORDS: Record<Weight["kind"], string> = {
  column: "column-parallel: output features",
  row: "row-parallel: input features",
  qkv: "Q, K and V: output features, whole heads",
  merged: "merged column-parallel: output features of each",
  replicated: "the same on every rank",
  vocab: "vocabulary: token ids",
  expert: "experts",
  cut: "cut by the layer's own rule",
};

/** What the weights are grouped by: layers, and what is around them. */
export function layersOf(weights: readonly Weight[]): string[] {
  const layers = new Set(weights.map(({ name }) => layerOf(name)).filter((layer) => layer !== undefined));
  const around = weights.some(({ name }) => layerOf(name) === undefined);
  return [...[...layers].sort((a, b) => a - b).map(String), ...(around ? ["around"] : [])];
}

export class ShardsView {
  readonly element = h("div", { class: "srk-table-box" });
  #key = "";

  draw(recorded: Recorded, layer: string, module: string, dark: boolean, height: number): void {
    this.element.style.setProperty("--srk-height", `${height}px`);
    const key = JSON.stringify([recorded.run.title, recorded.weights.length, layer, module, dark]);
    if (key === this.#key) return;
    this.#key = key;
    const shown = recorded.weights.filter(({ name }) => String(layerOf(name) ?? "around") === layer);
    const ranks = Array.from({ length: recorded.run.size }, (_, rank) => rank);
    const rows = shown.map((weight) => {
      const strip = weight.name.replace(/^model\./, "").replace(/^layers\.\d+\./, "");
      const own = module !== "" && weight.name.startsWith(module);
      return h(
        "tr",
        { "data-now": String(own) },
        h("th", { scope: "row" }, strip, h("span", { class: "srk-kind" }, KIND_WORDS[weight.kind])),
        ...ranks.map((rank) => h("td", {}, ...held(weight.held[rank], rank, dark))),
      );
    });
    this.element.replaceChildren(
      h(
        "table",
        { class: "srk-table srk-shards" },
        h(
          "thead",
          {},
          h("tr", {}, h("td"), ...ranks.map((rank) => h("th", { scope: "col" }, total(recorded, rank)))),
        ),
        h("tbody", {}, ...rows),
      ),
    );
  }
}

function total({ weights }: Recorded, rank: number): string {
  const bytes = weights.reduce((sum, { held }) => sum + (held[rank]?.bytes ?? 0), 0);
  return `rank ${rank} · ${format.bytes(bytes)} in all`;
}

function held(one: Held | undefined, rank: number, dark: boolean): HTMLElement[] {
  if (!one) return [];
  const size = h("span", { class: "srk-kind" }, `${one.shape.join(" × ")} · ${format.bytes(one.bytes)}`);
  if (!one.parts.length) return [h("div", { class: "srk-part" }, strip(0, 1, 1, rank, dark), "all"), size];
  return [
    ...one.parts
      .filter(({ name, start, stop, whole }) => name !== "slice" || stop - start < whole)
      .map((part) =>
        h("div", { class: "srk-part" }, strip(part.start, part.stop, part.whole, rank, dark), told(part)),
      ),
    size,
  ];
}

export function told({ name, axis, start, stop, whole, ids }: Part): string {
  if (axis === "expert") return ids.map((id) => `e${id}`).join(" ");
  if (start === stop) return "none: padding";
  const range = start === 0 && stop === whole ? "all" : `${start}–${stop - 1} of ${format.count(whole)}`;
  return name ? `${name} ${range}` : range;
}

/** Where a part lies in the whole. */
function strip(start: number, stop: number, whole: number, rank: number, dark: boolean): HTMLElement {
  const filled = h("i");
  filled.style.left = `${(100 * start) / whole}%`;
  filled.style.width = `${(100 * (stop - start)) / whole}%`;
  filled.style.background = cssBackground(lookOf(rank, dark));
  return h("span", { class: "srk-strip", "aria-hidden": "true" }, filled);
}
