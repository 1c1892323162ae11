// Canvases as sharp as the screen, and patterns to fill them.

import { CanvasPaint } from "./colors";
import { pixelRatio } from "./pixels";

export const HATCHED_FROM = 3; // px: below this a hatch is noise

/** Sizes a canvas in CSS pixels, sharp on this screen or in the picture that is saved, and empties it; returns its context in the same pixels. */
export function sizeCanvas(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
): CanvasRenderingContext2D {
  const ratio = pixelRatio();
  const pixels = [Math.round(width * ratio), Math.round(height * ratio)] as const;
  if (canvas.width !== pixels[0]) canvas.width = pixels[0];
  if (canvas.height !== pixels[1]) canvas.height = pixels[1];
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

let shared: { ratio: number; paint: CanvasPaint } | undefined;

/** Patterns are costly to make and serve every canvas of the page. */
export function sharedPaint(): CanvasPaint {
  const ratio = pixelRatio();
  if (shared?.ratio !== ratio) shared = { ratio, paint: new CanvasPaint(ratio) };
  return shared.paint;
}
