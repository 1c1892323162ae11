// What the marks of a picture mean: swatches with names, in one line where there is room.

import { cssBackground, type Look } from "./colors";
import { h } from "./dom";

export interface LegendItem {
  label: string;
  /** A mark in this look; or the mark itself; without either, the label alone. */
  look?: Look;
  mark?: HTMLElement;
  title?: string;
}

export function legendParts(items: readonly LegendItem[]): HTMLElement[] {
  return items.map(({ label, look, mark, title }) =>
    h("span", { class: "sg-legend-item", title }, mark ?? (look && swatch(look)), label),
  );
}

function swatch(look: Look): HTMLElement {
  const made = h("i", { class: "sg-swatch", "aria-hidden": "true" });
  made.style.background = cssBackground(look);
  return made;
}

/** A mark drawn by CSS: `kind` is one of those in core.css. */
export function legendMark(
  kind: "dashes" | "dots" | "line" | "shade" | "outline" | "hatch" | "cursor" | "way",
): HTMLElement {
  return h("i", { class: `sg-legend-mark sg-legend-${kind}`, "aria-hidden": "true" });
}

/** A scale of colours with its ticks, which stand at even distances. */
export function legendScale(
  what: string,
  gradient: string,
  ticks: readonly string[],
  title: string,
): LegendItem {
  const bar = h("i", { class: "sg-legend-bar", "aria-hidden": "true" });
  bar.style.background = gradient;
  const names = h("span", { class: "sg-legend-ticks" }, ...ticks.map((tick) => h("span", {}, tick)));
  return { label: "", mark: h("span", { class: "sg-legend-scale" }, what, h("span", {}, bar, names)), title };
}
