// Small pieces of details panes: definitions, tables, buttons.

import { cssBackground, h, definitions as list, lookOf } from "@sglab/core";

type Content = string | HTMLElement;

/** Names with values under a heading. */
export function definitions(rows: readonly (readonly [string, Content])[], heading = ""): HTMLElement {
  return h("section", { class: "sge-part" }, heading ? title(heading) : undefined, list(rows));
}

export function title(text: string): HTMLElement {
  return h("div", { class: "sge-title" }, text);
}

/** A table whose first column is text and whose other columns are numbers where they are. */
export function table(
  head: readonly string[],
  rows: readonly (readonly Content[])[],
  label: string,
): HTMLElement {
  const made = h("table", { class: "sge-table", "aria-label": label });
  made.append(h("thead", {}, h("tr", {}, ...head.map((each) => h("th", { scope: "col" }, each)))));
  const body = h("tbody");
  for (const row of rows) body.append(h("tr", {}, ...row.map((each) => h("td", {}, each))));
  made.append(body);
  return h("div", { class: "sge-scroll" }, made);
}

/** A text that is pressed. */
export function link(text: string, label: string, run: () => void): HTMLButtonElement {
  const made = h("button", { type: "button", class: "sge-link", title: label }, text);
  made.addEventListener("click", run);
  return made;
}

/** A request's colour beside its name, which is pressed. */
export function requestLink(index: number, name: string, dark: boolean, run: () => void): HTMLElement {
  const swatch = h("i", { class: "sge-swatch", "aria-hidden": "true" });
  swatch.style.background = cssBackground(lookOf(index, dark));
  return h("span", { class: "sge-request" }, swatch, link(name, `Select ${name}`, run));
}

export function note(text: string): HTMLElement {
  return h("p", { class: "sge-note" }, text);
}

/** Replaces what is shown; a link that had the focus has it again. */
export function keepFocus(pane: HTMLElement, parts: readonly HTMLElement[]): void {
  const links = [...pane.querySelectorAll("button")];
  const focused = links.indexOf(document.activeElement as HTMLButtonElement);
  pane.replaceChildren(...parts);
  if (focused >= 0) pane.querySelectorAll("button")[focused]?.focus({ preventScroll: true });
}
