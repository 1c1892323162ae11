// The whole timeline in a strip, with the stretch that is on screen; pressing or dragging moves it.

import type { Look } from "../colors";
import { h } from "../dom";
import type { Disposer } from "../emitter";
import { pixelRatio } from "../pixels";
import type { Theme } from "../theme";
import type { TimelineModel, TimelineRow } from "./model";
import type { Pyramid } from "./pyramid";
import { type Range, windowIn } from "./range";

const HEIGHT = 34;
const LINE = 1.5; // px

export class Minimap {
  readonly canvas = h("canvas", {
    class: "sg-minimap",
    "aria-hidden": "true",
    title: "all of the axis; what is shown above is framed, or between the two marks: drag",
  });
  #whole = document.createElement("canvas");
  #drawn = "";

  constructor(disposer: Disposer, move: (middle: number) => void) {
    let dragging = false;
    const at = (event: PointerEvent) => {
      const box = this.canvas.getBoundingClientRect();
      move(Math.max(0, Math.min(1, (event.clientX - box.left) / box.width)));
    };
    disposer.listen(this.canvas, "pointerdown", (event) => {
      dragging = true;
      this.canvas.setPointerCapture(event.pointerId);
      at(event);
    });
    disposer.listen(this.canvas, "pointermove", (event) => {
      if (dragging) at(event);
    });
    for (const type of ["pointerup", "pointercancel"] as const)
      disposer.listen(this.canvas, type, () => {
        dragging = false;
      });
  }

  /** The picture of the whole is to be made again. */
  forget(): void {
    this.#drawn = "";
  }

  draw(
    model: TimelineModel,
    pyramids: Pyramid[][],
    range: Range,
    cursor: number,
    theme: Theme,
    width: number,
  ): void {
    const key = `${width} ${pixelRatio()} ${theme.dark} ${theme.background}`;
    if (key !== this.#drawn) this.#drawWhole(model, pyramids, width);
    this.#drawn = key;
    const context = fit(this.canvas, width, HEIGHT);
    if (!context) return;
    context.drawImage(this.#whole, 0, 0, width, HEIGHT);
    const { from, to, framed } = windowIn(range, model.length, width);
    context.fillStyle = theme.background;
    context.globalAlpha = 0.6;
    context.fillRect(0, 0, from, HEIGHT);
    context.fillRect(to, 0, width - to, HEIGHT);
    context.globalAlpha = 1;
    if (framed) {
      context.strokeStyle = theme.text;
      context.lineWidth = LINE;
      context.strokeRect(from + LINE / 2, LINE / 2, to - from - LINE, HEIGHT - LINE);
    } else if (from > 0 || to < width) paintMarks(context, (from + to) / 2, theme.text);
    context.fillStyle = theme.focus;
    context.fillRect((cursor / model.length) * width - 1, 0, 2, HEIGHT);
  }

  #drawWhole(model: TimelineModel, pyramids: Pyramid[][], width: number): void {
    const context = fit(this.#whole, width, HEIGHT);
    if (!context) return;
    const lines = Math.max(1, pyramids.length);
    const each = (HEIGHT - 2) / lines;
    const scale = width / model.length;
    pyramids.forEach((lanes, row) => {
      const { alive, look } = model.rows[row] as TimelineRow;
      if (!lanes.length && alive) {
        context.globalAlpha = 0.5;
        context.fillStyle = (model.looks[look ?? 0] as Look).fill;
        for (let i = 0; i < alive.size; i++) {
          const from = (alive.start[i] as number) * scale;
          context.fillRect(
            from,
            1 + row * each,
            Math.max(0.5, (alive.end[i] as number) * scale - from),
            Math.max(0.8, each - 0.3),
          );
        }
      }
      for (const pyramid of lanes) {
        const level = pyramid.levelFor(model.length / width) ?? pyramid.levels[0];
        if (!level) continue;
        const perBin = (level.width / model.length) * width;
        for (let bin = 0; bin < level.cover.length; bin++) {
          const share = (level.cover[bin] as number) / level.width;
          if (share <= 0) continue;
          context.globalAlpha = 0.35 + 0.65 * Math.min(1, share);
          context.fillStyle = (model.looks[level.look[bin] as number] as Look).fill;
          context.fillRect(bin * perBin, 1 + row * each, perBin + 0.3, Math.max(0.8, each - 0.3));
        }
      }
    });
  }
}

/** Above and below a place: a frame around so little would be wider than what it frames. */
function paintMarks(context: CanvasRenderingContext2D, x: number, color: string): void {
  context.fillStyle = color;
  for (const [edge, tip] of [
    [0, 8],
    [HEIGHT, HEIGHT - 8],
  ] as const) {
    context.beginPath();
    context.moveTo(x - 5, edge);
    context.lineTo(x + 5, edge);
    context.lineTo(x, tip);
    context.fill();
  }
}

/** A canvas of this size in CSS pixels, cleared; its context draws in CSS pixels. */
export function fit(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
): CanvasRenderingContext2D | null {
  const ratio = pixelRatio();
  const [w, t] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== t) {
    canvas.width = w;
    canvas.height = t;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context?.setTransform(ratio, 0, 0, ratio, 0, 0);
  context?.clearRect(0, 0, width, height);
  return context;
}
