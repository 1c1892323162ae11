// One CTA's map: a canvas that is panned, zoomed, pointed at and walked with the keyboard.

import { type Disposer, framed, h, sizeCanvas } from "@sglab/core";
import { COLUMNS, LANES } from "./data";
import { LEFT, TOP } from "./heads";
import { paintMap } from "./paint";
import type { Scene } from "./scene";
import { panBy, type Size, scaleOf, type Viewport, zoomAt } from "./viewport";

export interface Cell {
  lane: number;
  column: number;
}

export interface MapOptions {
  label: string;
  /** What to draw now; undefined: nothing yet. */
  scene: () => Scene | undefined;
  viewport: () => Viewport;
  setViewport: (view: Viewport) => void;
  hover: (cell: Cell | undefined, x: number, y: number) => void;
  select: (cell: Cell) => void;
  /** Moves the cursor and says what is there. */
  moveCursor: (cell: Cell) => string;
  cursor: () => Cell;
}

const DRAG_FROM = 4; // px: less is a click
const WHEEL = 0.0015;

export interface MapView {
  readonly root: HTMLElement;
  readonly plotSize: () => Size;
  setHeight(height: number): void;
  draw(): void;
  /** Draws in the next frame. */
  schedule(): void;
  /** Where a cell is on the screen. */
  clientPoint(cell: Cell): { x: number; y: number };
}

export function mapView(options: MapOptions, disposer: Disposer): MapView {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const spoken = h("div", { class: "sg-spoken", "aria-live": "polite" });
  const surface = h(
    "div",
    { class: "stm-map", tabindex: 0, role: "group", "data-picture": true, "aria-label": options.label },
    canvas,
  );
  const root = h("div", { class: "stm-map-box" }, surface, spoken);
  let height = 300;
  const size = (): Size => ({ width: Math.max(120, surface.clientWidth), height });
  const plotSize = (): Size => ({ width: size().width - LEFT, height: size().height - TOP });

  const paint = () => {
    const scene = options.scene();
    if (!scene || surface.clientWidth === 0) return;
    const { width } = size();
    const context = sizeCanvas(canvas, width, height);
    const cursor = surface.matches(":focus-visible") ? options.cursor() : undefined;
    paintMap(context, { ...scene, cursor }, size());
  };
  const frame = framed(paint);
  disposer.add(() => frame.cancel());

  const cellAt = (event: MouseEvent): Cell | undefined => {
    const box = canvas.getBoundingClientRect();
    const scale = scaleOf(options.viewport(), plotSize());
    const x = event.clientX - box.left - LEFT;
    const y = event.clientY - box.top - TOP;
    const column = Math.floor(options.viewport().column + x / scale.width);
    const lane = Math.floor(options.viewport().lane + y / scale.height);
    return x >= 0 && y >= 0 && column < COLUMNS && lane < LANES ? { lane, column } : undefined;
  };

  let drag: { x: number; y: number; moved: boolean } | undefined;
  disposer.listen(surface, "pointerdown", (event) => {
    if (event.button === 0) drag = { x: event.clientX, y: event.clientY, moved: false };
  });
  disposer.listen(surface, "pointermove", (event) => {
    if (drag && event.buttons & 1) {
      const [x, y] = [event.clientX - drag.x, event.clientY - drag.y];
      if (!drag.moved && Math.hypot(x, y) < DRAG_FROM) return;
      if (!drag.moved) surface.setPointerCapture(event.pointerId);
      drag = { x: event.clientX, y: event.clientY, moved: true };
      options.hover(undefined, 0, 0);
      options.setViewport(panBy(options.viewport(), plotSize(), x, y));
    } else options.hover(cellAt(event), event.clientX, event.clientY);
  });
  disposer.listen(surface, "pointerup", (event) => {
    const cell = drag && !drag.moved ? cellAt(event) : undefined;
    drag = undefined;
    if (cell) options.select(cell);
  });
  disposer.listen(surface, "pointercancel", () => {
    drag = undefined;
  });
  disposer.listen(surface, "pointerleave", () => options.hover(undefined, 0, 0));
  disposer.listen(surface, "blur", () => {
    options.hover(undefined, 0, 0);
    frame.schedule();
  });
  disposer.listen(surface, "focus", () => frame.schedule());
  const onWheel = (event: WheelEvent) => {
    if (!event.ctrlKey && !surface.matches(":focus, :focus-within")) return; // the page scrolls
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left - LEFT, event.clientY - box.top - TOP];
    options.setViewport(zoomAt(options.viewport(), plotSize(), -event.deltaY * WHEEL, x, y));
  };
  surface.addEventListener("wheel", onWheel, { passive: false });
  disposer.add(() => surface.removeEventListener("wheel", onWheel));

  disposer.listen(surface, "keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const { lane, column } = options.cursor();
    const moves: Record<string, Cell> = {
      ArrowLeft: { lane, column: column - 1 },
      ArrowRight: { lane, column: column + 1 },
      ArrowUp: { lane: lane - 1, column },
      ArrowDown: { lane: lane + 1, column },
      PageUp: { lane: lane - 32, column },
      PageDown: { lane: lane + 32, column },
      Home: { lane, column: 0 },
      End: { lane, column: COLUMNS - 1 },
    };
    const target = moves[event.key];
    if (target)
      spoken.textContent = options.moveCursor({
        lane: Math.max(0, Math.min(LANES - 1, target.lane)),
        column: Math.max(0, Math.min(COLUMNS - 1, target.column)),
      });
    else if (event.key === "Enter") options.select(options.cursor());
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  const observer = new ResizeObserver(() => frame.schedule());
  observer.observe(surface);
  disposer.add(() => observer.disconnect());

  return {
    root,
    plotSize,
    setHeight(next) {
      height = next;
      surface.style.height = `${next}px`;
      frame.schedule();
    },
    draw: frame.now,
    schedule: frame.schedule,
    clientPoint(cell) {
      const box = canvas.getBoundingClientRect();
      const view = options.viewport();
      const scale = scaleOf(view, plotSize());
      return {
        x: box.left + LEFT + (cell.column + 0.5 - view.column) * scale.width,
        y: box.top + TOP + (cell.lane + 1 - view.lane) * scale.height,
      };
    },
  };
}
