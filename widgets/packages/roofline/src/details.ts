// The panes at the right: the selected point, all points as a table, the ceilings with their sources.

import { h } from "@sglab/core";
import { link, note, table } from "@sglab/engine/parts";
import { button, definitions } from "@sglab/memory/parts";
import type { Spot } from "./model";
import type { Machine, Texts } from "./protocol";
import { intensityText, markRows, shortKind, si } from "./words";

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
  hidden: number,
  select: (spot: number) => void,
): HTMLElement[] {
  if (!spots.length) return [note("No point yet.")];
  const rows = spots.map(({ mark, place, x, y }, at) => [
    h(
      "span",
      { class: "srf-named" },
      link(mark.label, `Select ${mark.label}`, () => select(at)),
      ` ${mark.origin}`,
    ),
    intensityText(x),
    si(y, "FLOP/s").replaceAll(" ", "\u00a0"),
    mark.seconds === null ? "" : `${Math.round((100 * place.seconds) / mark.seconds)} %`,
  ]);
  const parts: HTMLElement[] = [table(["point", "FLOP/B", "rate", "of roof"], rows, "All points")];
  if (hidden) parts.push(note(hiddenText(hidden)));
  return parts;
}

export function hiddenText(count: number): string {
  return `${count} more: timed on another machine, or of an arithmetic without a published peak here.`;
}

export function ceilingsPane(machine: Machine): HTMLElement[] {
  return [
    note(`${machine.product}: what its maker publishes. Tensor cores without sparsity.`),
    table(
      ["ceiling", "rate", "source"],
      machine.ceilings.map(([kind, rate, source]) => [
        kind === "memory" ? "memory" : shortKind(kind),
        si(rate, kind === "memory" ? "B/s" : "FLOP/s").replaceAll(" ", "\u00a0"),
        source,
      ]),
      "Ceilings",
    ),
  ];
}
