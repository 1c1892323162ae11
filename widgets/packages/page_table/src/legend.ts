// What the marks mean.

import { h } from "@sglab/core";

const ITEMS: [string, string][] = [
  ["read", "read in this step"],
  ["written", "written in this step"],
  ["empty", "padding, stale or unused"],
  ["free", "free page"],
  ["next", "free page next in line"],
  ["dummy", "dummy page 0"],
  ["changed", "changed by the last edit"],
];

export function legend(): HTMLElement {
  const items = ITEMS.map(([mark, text]) =>
    h(
      "span",
      { class: "pt-legend-item" },
      h("span", { class: `pt-mark pt-mark-${mark}`, "aria-hidden": "true" }),
      text,
    ),
  );
  return h("div", { class: "pt-legend" }, ...items);
}
