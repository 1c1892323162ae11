// The bars of the requests' lengths: press to select, drag up or down to lengthen or shorten.

import { type Disposer, format, h, type Theme } from "@sglab/core";
import { barLayout, requestAt, topFor } from "./bars";
import { nameOf, type Plans, type Work } from "./data";
import { paintBars } from "./paint_bars";

const HEIGHT = 96;
const DEAD_ZONE = 2; // px of movement that still count as a press

export interface LengthBars {
  root: HTMLElement;
  show(plans: Plans, focused: Work | null, selected: number | undefined, theme: Theme, width: number): void;
}

export function lengthBars(
  disposer: Disposer,
  select: (request: number) => void,
  drag: (request: number, length: number, done: boolean) => void,
  editable: boolean,
): LengthBars {
  const canvas = h("canvas", { class: "skv-bars", role: "img" });
  if (editable) canvas.dataset.editable = "";
  let plans: Plans | undefined;
  let layout = barLayout(300, HEIGHT, 1, 16);
  let held: { request: number; y: number; length: number; moved: boolean } | undefined;

  const at = (event: PointerEvent) => requestAt(layout, plans?.lens.length ?? 0, event.offsetX);
  disposer.listen(canvas, "pointerdown", (event) => {
    const request = at(event);
    if (request < 0 || !plans || event.button !== 0) return;
    select(request);
    if (!editable) return;
    held = { request, y: event.clientY, length: plans.lens[request] as number, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  disposer.listen(canvas, "pointermove", (event) => {
    if (!held) {
      const request = at(event);
      canvas.title =
        plans && request >= 0
          ? `${nameOf(plans, request)}: ${format.plural(plans.lens[request] as number, "KV token")}`
          : "";
      return;
    }
    const up = held.y - event.clientY;
    if (!held.moved && Math.abs(up) < DEAD_ZONE) return;
    held.moved = true;
    drag(held.request, lengthAt(held.length, up), false);
  });
  const release = (event: PointerEvent) => {
    if (held?.moved) drag(held.request, lengthAt(held.length, held.y - event.clientY), true);
    held = undefined;
  };
  disposer.listen(canvas, "pointerup", release);
  disposer.listen(canvas, "pointercancel", release);
  const lengthAt = (length: number, up: number) =>
    Math.max(1, Math.round(length + (up / layout.plot.height) * layout.top));

  return {
    root: canvas,
    show(next, focused, selected, theme, width) {
      plans = next;
      const longest = Math.max(1, ...next.lens);
      // while a bar is held the scale stays, unless the bar outgrows it
      const top = held?.moved ? Math.max(layout.top, longest) : topFor(longest);
      layout = barLayout(width, HEIGHT, next.lens.length, top);
      const hint = editable ? " Drag a bar to change it; + and - do the same for the selected request." : "";
      canvas.setAttribute(
        "aria-label",
        `Lengths of ${format.plural(next.lens.length, "request")}, at most ${format.count(longest)} KV tokens.${hint}`,
      );
      paintBars(canvas, layout, next.lens, next, focused, theme, selected);
    },
  };
}
