// What the marks mean.

import { h, type LegendItem } from "@sglab/core";

const ITEMS: [string, string][] = [
  ["read", "read in this step"],
  ["written", "written in this step"],
  ["empty", "padding, stale or unused"],
  ["free", "free page"],
  ["next", "free page next in line"],
  ["dummy", "dummy page 0"],
  ["changed", "changed by the last edit"],
];

export const LEGEND = (): LegendItem[] =>
  ITEMS.map(([mark, label]) => ({
    label,
    mark: h("span", { class: `pt-mark pt-mark-${mark}`, "aria-hidden": "true" }),
  }));
