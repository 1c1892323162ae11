// Pointer and wheel on a canvas as zooming, panning, hovering and pressing. The page still scrolls: the wheel zooms with
// Ctrl only, and pans with Shift or sideways.

import type { Disposer } from "../emitter";

export interface GestureHandlers {
  /** `factor` above 1 shows more; `x` stays where it is. */
  zoom: (factor: number, x: number) => void;
  /** Shows what is this many pixels further right. */
  pan: (pixels: number) => void;
  hover: (event: PointerEvent, x: number, y: number) => void;
  leave: () => void;
  press: (x: number, y: number) => void;
  /** A double press. */
  open: (x: number, y: number) => void;
}

const DRAG_FROM = 4; // px: less is a press
const LINE = 16; // px per line, of wheels that count lines

export class Gestures {
  #from: { x: number; y: number } | undefined;
  #dragged = false;

  constructor(
    private canvas: HTMLCanvasElement,
    disposer: Disposer,
    private handlers: GestureHandlers,
  ) {
    disposer.listen(canvas, "wheel", (event) => this.#wheel(event), { passive: false });
    disposer.listen(canvas, "pointerdown", (event) => this.#down(event));
    disposer.listen(canvas, "pointermove", (event) => this.#move(event));
    disposer.listen(canvas, "pointerup", (event) => this.#up(event));
    disposer.listen(canvas, "pointercancel", () => {
      this.#from = undefined;
    });
    disposer.listen(canvas, "pointerleave", () => handlers.leave());
    disposer.listen(canvas, "dblclick", (event) => {
      const { x, y } = this.#place(event);
      handlers.open(x, y);
    });
  }

  #place(event: MouseEvent): { x: number; y: number } {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  #wheel(event: WheelEvent): void {
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE : 1;
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (event.ctrlKey || event.metaKey) {
      const by = Math.max(-120, Math.min(120, event.deltaY * unit));
      this.handlers.zoom(Math.exp(by / 240), this.#place(event).x);
    } else if (sideways) this.handlers.pan(sideways * unit);
    else return;
    event.preventDefault();
  }

  #down(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.#from = this.#place(event);
    this.#dragged = false;
    this.canvas.setPointerCapture(event.pointerId);
  }

  #move(event: PointerEvent): void {
    const { x, y } = this.#place(event);
    if (!this.#from) {
      this.handlers.hover(event, x, y);
      return;
    }
    if (!this.#dragged && Math.abs(x - this.#from.x) < DRAG_FROM) return;
    this.#dragged = true;
    this.handlers.pan(this.#from.x - x);
    this.#from = { x, y };
  }

  #up(event: PointerEvent): void {
    const { x, y } = this.#place(event);
    if (this.#from && !this.#dragged) this.handlers.press(x, y);
    this.#from = undefined;
  }
}
