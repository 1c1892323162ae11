// What the marks mean.

import { h, type LegendItem } from "@sglab/core";

const ITEMS: [mark: string, label: string, title?: string][] = [
  ["read", "read in this step"],
  ["written", "written in this step"],
  ["empty", "padding, stale or unused"],
  ["free", "free page"],
  ["next", "free page next in line"],
  [
    "dummy",
    "dummy page 0, not counted",
    "SGLang's slot 0 lies on it: padded rows write there, no request gets it",
  ],
  ["changed", "changed by the last edit"],
];

export const LEGEND = (): LegendItem[] =>
  ITEMS.map(([mark, label, title]) => ({
    label,
    ...(title ? { title } : {}),
    mark: h("span", { class: `pt-mark pt-mark-${mark}`, "aria-hidden": "true" }),
  }));
