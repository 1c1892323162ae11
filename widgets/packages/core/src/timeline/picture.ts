// The rows of a timeline, drawn once and kept: while only the cursor moves, a frame is a copy and a line.

import { sharedPaint } from "../canvas";
import { pixelRatio } from "../pixels";
import { fit } from "./minimap";
import { paintCursor, paintTimeline } from "./paint";
import type { Scene } from "./scene";

export class Picture {
  readonly canvas: HTMLCanvasElement;
  #kept = document.createElement("canvas");
  #key: readonly unknown[] = [];

  constructor(canvas: HTMLCanvasElement) {
    this.canvas = canvas;
  }

  draw(scene: Scene): void {
    const { width, theme, layout } = scene;
    const { cursor: _, ...rest } = scene;
    const key = [...Object.values({ ...rest, theme: 0 }), ...Object.values(theme), pixelRatio()];
    if (key.length !== this.#key.length || key.some((each, i) => each !== this.#key[i])) {
      const context = fit(this.#kept, width, layout.height);
      if (context) paintTimeline(context, sharedPaint(), scene);
      this.#key = key;
    }
    const context = fit(this.canvas, width, layout.height);
    if (!context || !this.#kept.width || !this.#kept.height) return;
    context.drawImage(this.#kept, 0, 0, width, layout.height);
    paintCursor(context, scene);
  }
}
