// Small pieces of the memory widgets' panes.

import { type Frame, h, definitions as list, replaceChanged, setAttributes } from "@sglab/core";
import { cssGradient, type Range } from "./cividis";
import type { Finding } from "./protocol";
import { short } from "./words";

export type Row = [term: string, text: string | HTMLElement];

export function definitions(title: string, rows: Row[]): HTMLElement {
  return h("div", { class: "smv-definitions" }, h("div", { class: "sg-heading" }, title), list(rows));
}

export interface Choice<T extends string> {
  root: HTMLElement;
  show(value: T): void;
}

/** A labelled menu. */
export function menu<T extends string>(
  label: string,
  options: readonly (readonly [value: T, text: string])[],
  picked: (value: T) => void,
): Choice<T> {
  const select = h(
    "select",
    { class: "sg-select", "aria-label": label },
    ...options.map(([value, text]) => h("option", { value }, text)),
  );
  select.addEventListener("change", () => picked(select.value as T));
  return {
    root: h("label", { class: "smv-label" }, `${label} `, select),
    show: (value) => {
      if (select.value !== value) select.value = value;
    },
  };
}

/** Buttons of which one is pressed. */
export function switcher<T extends string>(
  label: string,
  options: readonly (readonly [value: T, text: string])[],
  picked: (value: T) => void,
): Choice<T> {
  const buttons = options.map(([value, text]) => {
    const button = h("button", { type: "button", class: "sg-button", "data-value": value }, text);
    button.addEventListener("click", () => picked(value));
    return button;
  });
  return {
    root: h("div", { class: "smv-switch", role: "group", "aria-label": label }, ...buttons),
    show: (value) => {
      for (const button of buttons)
        setAttributes(button, { "aria-pressed": String(button.dataset.value === value) });
    },
  };
}

/** What a button is called aloud: its title, with what is written on it, by which people call it. */
export function spoken(text: string, title: string): string {
  const word = /\p{L}{2}/u.test(text);
  return word && !title.toLowerCase().includes(text.toLowerCase()) ? `${text}: ${title}` : title;
}

export function button(text: string, title: string, run: () => void): HTMLButtonElement {
  const name = spoken(text, title);
  const element = h("button", { type: "button", class: "sg-button", title, "aria-label": name }, text);
  element.addEventListener("click", run);
  return element;
}

/** What the colours of values mean: the range that they span, and NaN. */
export function scaleParts(ranges: Iterable<[name: string, range: Range]>, what: string): HTMLElement[] {
  const title = "From the 2nd to the 98th percentile; values beyond take the outermost colours.";
  const nan = h("span", { class: "smv-scale smv-nan", "aria-hidden": "true" });
  return [
    ...Array.from(ranges, ([name, { low, high }]) => {
      const scale = h("span", { class: "smv-scale", "aria-hidden": "true" });
      scale.style.background = cssGradient();
      return h("span", { class: "smv-label", title }, `${name} ≤ ${short(low)}`, scale, `≥ ${short(high)}`);
    }),
    h("span", {}, what),
    h("span", { class: "smv-label" }, nan, "NaN"),
  ];
}

/** Shows other details; the focus stays on the button that says the same, or in the widget, where keys step. */
export function showDetails({ details, root }: Frame, parts: readonly HTMLElement[]): void {
  const before = document.activeElement;
  const focused = before && before !== details && details.contains(before) ? before.textContent : undefined;
  replaceChanged(details, parts);
  if (focused === undefined || before === document.activeElement) return;
  const same = [...details.querySelectorAll("button")].find(({ textContent }) => textContent === focused);
  (same ?? root).focus({ preventScroll: true });
}

/** What to know about the whole launch, such as that it fails. */
export function noteParts(text: string): HTMLElement[] {
  return text ? [h("p", { class: "smv-warning" }, `△ ${text}`)] : [];
}

/** Findings to press: `go` selects the place; `name` says which it is. */
export function findingParts(
  findings: readonly Finding[],
  name: (finding: Finding) => string,
  go: (finding: Finding) => void,
): HTMLElement[] {
  if (!findings.length) return [];
  const items = findings.map((finding) => {
    const sign = finding.severity === "error" ? "▲" : "△";
    const press = button(name(finding), `Select ${name(finding)}`, () => go(finding));
    press.dataset.at = `${finding.rank} ${finding.address}`;
    return h("li", { class: `smv-${finding.severity}` }, `${sign} ${finding.text} `, press);
  });
  return [
    h("div", { class: "sg-heading" }, "Found by the sanitizers"),
    h("ul", { class: "smv-findings" }, ...items),
  ];
}

/** "warp 8 (mma) of CTA 0"; `roles` maps "CTA warp" to the name of what the warp does. */
export function whoName(roles: Record<string, string>, cta: number, warp: number): string {
  const role = roles[`${cta} ${warp}`];
  return `warp ${warp}${role ? ` (${role})` : ""} of CTA ${cta}`;
}
