// A widget on paper: laid out as it is on the screen, and scaled to the width of a page, so that canvases, which are not
// drawn anew for paper, are whole, and nothing lies across anything.

import { drawWaiting } from "./dom";
import type { Disposer } from "./emitter";
import { REDRAW } from "./pixels";

/** CSS pixels between the margins of A4 and of Letter paper. */
const PAPER = 690;

export function keepLayoutInPrint(root: HTMLElement, body: HTMLElement, disposer: Disposer): void {
  const before = () => {
    const { offsetWidth: width, offsetHeight: height } = root;
    if (!width) return; // not in sight
    if (root.dataset.dark === "true") {
      root.dataset.paper = "true"; // paper is light, whatever the screen is
      root.dispatchEvent(new Event(REDRAW));
      drawWaiting();
    }
    root.style.setProperty("--sg-print-width", `${width}px`);
    root.style.setProperty("--sg-print-height", `${height}px`);
    root.style.setProperty("--sg-print-body", `${body.offsetHeight}px`);
    root.style.setProperty("--sg-print-zoom", String(Math.min(1, PAPER / width)));
    const { display, gridTemplateColumns } = getComputedStyle(body);
    const wide = display === "grid" && gridTemplateColumns.includes(" ");
    root.dataset.print = wide ? "wide" : "narrow"; // panes beside each other, or one below the other
  };
  const after = () => {
    for (const name of ["width", "height", "body", "zoom"]) root.style.removeProperty(`--sg-print-${name}`);
    delete root.dataset.print;
    if (!root.dataset.paper) return;
    delete root.dataset.paper;
    root.dispatchEvent(new Event(REDRAW));
  };
  window.addEventListener("beforeprint", before);
  window.addEventListener("afterprint", after);
  disposer.add(() => {
    window.removeEventListener("beforeprint", before);
    window.removeEventListener("afterprint", after);
  });
}
