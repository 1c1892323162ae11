// The panes at the right: the selected point, all points as a table, the ceilings with their sources.

import { h } from "@sglab/core";
import { link, note, table } from "@sglab/engine/parts";
import { button, definitions } from "@sglab/memory/parts";
import type { Spot } from "./model";
import type { Machine, Texts } from "./protocol";
import { intensityText, markRows, shareText, shortKind, si } from "./words";

const HINT = "Press a point, or step: its counts, its time and how far below its roof it is.";
const NONE =
  "No point yet: pass a launch or a roofline.Point, or add what attention of some shape has to do (more).";

export interface Actions {
  live: boolean;
  open: (widget: string, point: number) => void;
  remove: (point: number) => void;
  select: (spot: number) => void;
}

export function pointPane(
  spot: Spot | undefined,
  machine: Machine,
  texts: Texts,
  { live, open, remove }: Actions,
  any: boolean,
): HTMLElement[] {
  if (!spot) return [note(any ? HINT : NONE)];
  const { mark, index } = spot;
  const parts = [definitions(mark.label, markRows(mark, machine, texts))];
  if (!live) return parts;
  const openers = mark.opens.map((widget) =>
    button(`open in ${widget}`, `open in ${widget}: the launch that this point was counted from`, () =>
      open(widget, index),
    ),
  );
  const away = button("take away", "take away this point", () => remove(index));
  return [...parts, h("div", { class: "sge-row" }, ...openers, away)];
}

export function tablePane(
  spots: readonly Spot[],
  selected: number,
  hidden: string,
  select: (spot: number) => void,
): HTMLElement[] {
  if (!spots.length) return [note("No point yet.")];
  const rows = spots.map(({ mark, place, x, y }, at) => [
    h(
      "span",
      { class: "srf-named" },
      link(breakable(mark.label), `Select ${mark.label}`, () => select(at)),
      ` ${mark.origin}`,
    ),
    intensityText(x),
    // without a time no rate was reached: its roof is what it has at most
    `${mark.seconds === null ? "≤ " : ""}${si(y, "FLOP/s")}`.replaceAll(" ", "\u00a0"),
    mark.seconds === null ? "" : shareText(place.seconds, mark.seconds).replaceAll(" ", "\u00a0"),
  ]);
  const made = table(["point", "FLOP/B", "rate", "of roof"], rows, "All points");
  made.querySelectorAll<HTMLElement>("tbody tr").forEach((row, at) => {
    row.classList.add("srf-row");
    row.dataset.selected = String(at === selected);
    row.addEventListener("click", () => select(at));
  });
  return hidden ? [made, note(hidden)] : [made];
}

/** A name that breaks after an underscore, not within a word. */
function breakable(name: string): string {
  return name.replaceAll("_", "_\u200b");
}

export function ceilingsPane(machine: Machine): HTMLElement[] {
  const sources = [...new Set(machine.ceilings.map(([, , source]) => source))];
  const rows = machine.ceilings.map(([kind, rate, source]) => [
    kind === "memory" ? "memory" : shortKind(kind),
    si(rate, kind === "memory" ? "B/s" : "FLOP/s").replaceAll(" ", "\u00a0"),
    String(sources.indexOf(source) + 1),
  ]);
  return [
    note(`${machine.product}: what its maker publishes. Tensor cores without sparsity.`),
    table(["ceiling", "rate", "source"], rows, "Ceilings"),
    h("ol", { class: "srf-sources" }, ...sources.map((source) => h("li", {}, ...linked(source)))),
  ];
}

/** A source, its address one to be pressed. */
function linked(source: string): (Node | string)[] {
  return source
    .split(/(https:\/\/[^\s,;]+)/)
    .map((part) =>
      part.startsWith("https://") ? h("a", { href: part, target: "_blank", rel: "noopener" }, part) : part,
    );
}
