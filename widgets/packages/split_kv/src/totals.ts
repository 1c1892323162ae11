// What the plans add up to: one row per planner.

import { format, h } from "@sglab/core";
import type { Plans } from "./data";
import type { Pane } from "./protocol";

interface Column {
  head: string;
  title: string;
  text: (pane: Pane) => string;
  exact?: (pane: Pane) => string;
}

const COLUMNS: Column[] = [
  {
    head: "grid",
    title: "Launch grid in CTAs: x × y × z",
    text: (pane) => pane.grid.join(" × "),
    exact: (pane) =>
      `${format.plural(pane.ctas, "CTA")} in clusters of ${pane.clusterSize}, ${pane.ctasPerSm} at once on an SM`,
  },
  {
    head: "CTAs/SM",
    title: "CTAs that run on an SM at once",
    text: (pane) => String(pane.ctasPerSm),
  },
  {
    head: "waves",
    title: "CTAs launched, those without work too, over CTAs that run at once",
    text: (pane) => pane.waves.toFixed(2),
    exact: (pane) => `${pane.ctas} CTAs / (${pane.smCount} SMs × ${pane.ctasPerSm})`,
  },
  {
    head: "SMs used",
    title: "Share of the SMs that get any work",
    text: (pane) => format.percent(pane.occupancy),
    exact: (pane) => `${Math.round(pane.occupancy * pane.smCount)} of ${pane.smCount} SMs`,
  },
  {
    head: "idle",
    title: "Modelled: share of the slots' time without work until the last CTA ends",
    text: (pane) => format.percent(pane.idleShare),
    exact: (pane) => `${(pane.idleShare * 100).toFixed(3)} %`,
  },
  {
    head: "last CTA ends",
    title: "Modelled time at which the last CTA ends, in KV tokens that one CTA reads",
    text: (pane) => `at ${format.plural(pane.makespan, "token")}`,
  },
  {
    head: "workspace",
    title: "Bytes of workspace: partial outputs and plan arrays",
    text: (pane) => format.bytes(pane.workspaceBytes),
    exact: (pane) => `${format.count(pane.workspaceBytes)} bytes`,
  },
  {
    head: "merge",
    title:
      "Rows of partial output (query heads × splits) that are merged afterwards, and bytes read and written",
    text: (pane) =>
      pane.partials ? `${format.plural(pane.partials, "row")}, ${format.bytes(pane.mergeBytes)}` : "none",
    exact: (pane) =>
      `${format.plural(pane.partials, "partial row")} into ${format.count(pane.outputs)}, ${format.count(pane.mergeBytes)} bytes`,
  },
];

/** What to beware of when these planners' modelled times are compared. */
export function caution({ shown }: Plans): string {
  const panes = shown.filter(({ pane }) => pane.error === undefined).map(({ pane }) => pane);
  if (new Set(panes.map((pane) => pane.ctasPerSm)).size < 2) return "";
  const several = panes.filter((pane) => pane.ctasPerSm > 1).map((pane) => pane.title);
  return (
    `${several.join(" and ")} ${several.length > 1 ? "run" : "runs"} 2 CTAs on an SM at once. The model lets each go ` +
    "at full speed, while real ones share the SM: compare the shapes, not the times."
  );
}

export function totalsTable({ shown }: Plans): HTMLElement {
  const head = h(
    "tr",
    {},
    h("th", { scope: "col" }, "planner"),
    ...COLUMNS.map(({ head, title }) => h("th", { scope: "col", title }, head)),
  );
  const rows = shown.map(({ pane }) => {
    const name = h("th", { scope: "row", title: pane.source }, pane.title);
    if (pane.error !== undefined)
      return h(
        "tr",
        {},
        name,
        h("td", { colspan: COLUMNS.length, class: "skv-refused" }, "refuses this batch"),
      );
    const cells = COLUMNS.map((column) =>
      h("td", { title: column.exact?.(pane) ?? column.title }, column.text(pane)),
    );
    return h("tr", {}, name, ...cells);
  });
  return h(
    "div",
    { class: "skv-scroll" },
    h(
      "table",
      { class: "skv-totals" },
      h("caption", { class: "skv-caption" }, "Totals"),
      h("thead", {}, head),
      h("tbody", {}, ...rows),
    ),
  );
}
