// A bar between two panes that is dragged, or moved with arrow keys while it has focus; a double press puts it back.

import { h } from "./dom";
import type { Disposer } from "./emitter";

export interface SplitterOptions {
  label: string;
  /** "x": panes side by side; "y": one above the other. */
  axis: "x" | "y";
  /** The pane that is sized. */
  pane: HTMLElement;
  /** Whether the pane is after the bar: it then grows as the bar moves back. */
  after?: boolean;
  least: number;
  /** Gives the pane `pixels`; undefined: what it takes by itself. */
  size: (pixels: number | undefined) => void;
}

const STEP = 24;

export function makeSplitter(options: SplitterOptions, disposer: Disposer): HTMLElement {
  const { label, axis, pane, after = false, least, size } = options;
  const bar = h("div", {
    class: "sg-splitter",
    role: "separator",
    tabindex: 0,
    "aria-orientation": axis === "x" ? "vertical" : "horizontal",
    "aria-label": label,
    "aria-valuenow": 50,
    title: `${label}: drag, or arrow keys; a double press puts it back`,
  });
  const extent = () => pane.getBoundingClientRect()[axis === "x" ? "width" : "height"];
  const place = (event: PointerEvent) => (axis === "x" ? event.clientX : event.clientY);
  const set = (pixels: number) => size(Math.max(least, Math.round(pixels)));
  let from: { at: number; extent: number } | undefined;
  disposer.listen(bar, "pointerdown", (event) => {
    if (event.button !== 0) return;
    from = { at: place(event), extent: extent() };
    bar.setPointerCapture(event.pointerId);
    event.preventDefault(); // the keyboard stays where it is
  });
  disposer.listen(bar, "pointermove", (event) => {
    if (from) set(from.extent + (after ? -1 : 1) * (place(event) - from.at));
  });
  for (const type of ["pointerup", "pointercancel"] as const)
    disposer.listen(bar, type, () => {
      from = undefined;
    });
  disposer.listen(bar, "dblclick", () => size(undefined));
  disposer.listen(bar, "keydown", (event) => {
    const [less, more] = axis === "x" ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
    const step = { [less as string]: -STEP, [more as string]: STEP }[event.key];
    if (step !== undefined) set(extent() + (after ? -step : step));
    else if (event.key === "Enter") size(undefined);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return bar;
}
