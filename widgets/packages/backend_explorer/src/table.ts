// Every backend as a row: what it builds, plans, works in and reads; those that refuse say why.

import { cssBackground, type Disposer, format, h, revealWithin } from "@sglab/core";
import { LOOKS } from "./looks";
import type { Row } from "./protocol";
import {
  flops,
  groupTitle,
  longest,
  NO_FIGURES,
  type Order,
  ordered,
  partsOf,
  planText,
  reasonOf,
  type Standing,
  splitsText,
  standing,
} from "./words";

export interface Actions {
  select(name: string): void;
  open(widget: string, name: string): void;
}

const HEADS = ["backend", "arrays", "plan", "workspace", "through memory", "products", "at least"] as const;
const SIGNS: Record<Standing, string> = { runs: "✓", built: "◌", refused: "✕" };

export interface Table {
  element: HTMLElement;
  show(
    rows: readonly Row[],
    order: Order,
    folded: boolean,
    machine: string,
    version: string,
    live: boolean,
  ): void;
  select(name: string | undefined): void;
  /** Scrolls to a backend's row. */
  reveal(name: string): void;
  /** Backends in the order shown. */
  names(): string[];
}

export function makeTable(actions: Actions, disposer: Disposer): Table {
  const body = h("tbody");
  const element = h(
    "table",
    { class: "sbe-table", "aria-label": "Backends" },
    h("thead", {}, h("tr", {}, ...HEADS.map((head) => h("th", { scope: "col" }, head)))),
    body,
  );
  disposer.listen(body, "click", (event) => {
    const target = event.target as Element;
    const name = target.closest<HTMLElement>("[data-backend]")?.dataset.backend;
    if (!name) return;
    actions.select(name);
    const opens = target.closest<HTMLElement>("[data-opens]")?.dataset.opens;
    if (opens) actions.open(opens, name);
  });
  let selected: string | undefined;
  let names: string[] = [];

  /** Tab stops at one row, the selected one or the first; ↑ and ↓ go to the others. */
  function mark(): void {
    const stop = names.includes(selected ?? "") ? selected : names[0];
    for (const line of body.querySelectorAll<HTMLElement>("[data-backend]")) {
      const is = line.dataset.backend === selected;
      line.dataset.selected = String(is);
      line.querySelector(".sbe-name")?.setAttribute("aria-pressed", String(is));
      for (const button of line.querySelectorAll("button"))
        button.tabIndex = line.dataset.backend === stop ? 0 : -1;
    }
  }

  return {
    element,
    names: () => names,
    show(rows, order, folded, machine, version, live) {
      const most = longest(rows);
      const lines: HTMLElement[] = [];
      names = [];
      let before: Standing | undefined;
      const all = ordered(rows, order);
      for (const row of all) {
        const now = standing(row);
        if (now !== before) {
          const count = all.filter((each) => standing(each) === now).length;
          lines.push(groupLine(groupTitle(now, count, machine, version)));
          before = now;
        }
        if (folded && now === "refused") continue;
        names.push(row.name);
        lines.push(now === "refused" ? refusedLine(row) : line(row, most, live));
      }
      body.replaceChildren(...lines);
      mark();
    },
    select(name) {
      selected = name;
      mark();
    },
    reveal(name) {
      const root = element.closest(".sg-widget");
      if (root) revealWithin(root, body.querySelector(`[data-backend="${name}"]`));
    },
  };
}

function groupLine(text: string): HTMLElement {
  return h("tr", { class: "sbe-group" }, h("th", { colspan: HEADS.length, scope: "colgroup" }, text));
}

function nameCell(row: Row): HTMLElement {
  const now = standing(row);
  return h(
    "td",
    { class: "sbe-first" },
    h(
      "span",
      { class: "sbe-named" },
      h("span", { class: `sbe-sign sbe-${now}`, "aria-hidden": "true" }, row.chosen ? "★" : SIGNS[now]),
      h(
        "button",
        { type: "button", class: "sbe-name", "aria-pressed": "false", title: row.kernels },
        row.name,
      ),
    ),
    row.servedBy && row.servedBy !== row.name
      ? h("span", { class: "sbe-tag" }, `by ${row.servedBy}`)
      : undefined,
  );
}

function refusedLine(row: Row): HTMLElement {
  const text = reasonOf(row);
  return h(
    "tr",
    { "data-backend": row.name, class: "sbe-out" },
    nameCell(row),
    h("td", { colspan: HEADS.length - 1, class: "sbe-reason", title: text }, text),
  );
}

function line(row: Row, most: number, live: boolean): HTMLElement {
  const { cost } = row;
  const arrays = row.arrays.length ? `${row.arrays.length} · ${format.bytes(row.arrayBytes ?? 0)}` : "none";
  const kept = row.keptScratch ? `${format.bytes(row.keptScratch)} kept` : "";
  const own = row.passScratch ? format.bytes(row.passScratch) : "";
  const planned = row.plan?.workspaceBytes ?? 0; // the backend allocates none itself, its kernel does
  const bound = cost?.bound;
  return h(
    "tr",
    { "data-backend": row.name },
    nameCell(row),
    opening(arrays, "PageTable", row, live, "page table"),
    opening(splitsText(row.plan), "SplitKV", row, live, "plan", planText(row.plan)),
    h(
      "td",
      {
        class: "sbe-works",
        title:
          row.scratch.map((each) => `${each.name}: ${format.count(each.bytes)} B`).join("\n") ||
          (planned ? `taken by its kernel for the plan: ${format.count(planned)} B` : ""),
      },
      [own, kept].filter(Boolean).join(" + ") || (planned ? `${format.bytes(planned)} planned` : "none"),
    ),
    h("td", { class: "sbe-moved" }, bar(row, most), h("span", {}, cost ? format.bytes(cost.bytes) : "–")),
    opening(cost ? flops(cost.flops + cost.wasted) : "–", "KernelDebugger", row, live, "kernel"),
    h(
      "td",
      { title: bound ? `bound by ${bound.by}` : cost ? NO_FIGURES : row.notes.join("\n") },
      bound ? format.duration(bound.ns) : "–",
    ),
  );
}

/** A cell with a button that opens a widget, where there is something to open. */
function opening(
  text: string,
  widget: string,
  row: Row,
  live: boolean,
  what: string,
  about = "",
): HTMLElement {
  const closed = row.closed[widget] ?? "";
  const title = [about, closed].filter(Boolean).join(" · ");
  const cell = h("td", { title }, h("span", {}, text));
  if (live && !closed)
    cell.append(
      h(
        "button",
        {
          type: "button",
          class: "sbe-open",
          "data-opens": widget,
          "aria-label": `Open the ${what} of ${row.name} in ${widget}`,
          title: `Open in ${widget}`,
        },
        "↗",
      ),
    );
  return cell;
}

function bar(row: Row, most: number): HTMLElement {
  const { cost } = row;
  const made = h("div", { class: "sbe-bar", "aria-hidden": "true", "data-picture": "" });
  if (!cost) return made;
  for (const part of partsOf(cost)) {
    const piece = h("i", { title: `${part.name}: ${format.bytes(part.bytes)}` });
    piece.style.width = `${(100 * part.bytes) / most}%`;
    piece.style.background = cssBackground(LOOKS[part.look] as (typeof LOOKS)[number]);
    made.append(piece);
  }
  return made;
}
