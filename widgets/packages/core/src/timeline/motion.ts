// Moving from one range to another within 120 ms; immediately where motion is unwelcome.

import type { Range } from "./range";

const MOTION_MS = 120;

export class Motion {
  #frame = 0;

  constructor(private show: (range: Range) => void) {}

  start(from: Range, to: Range): void {
    this.stop();
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.show(to);
      return;
    }
    const began = performance.now();
    const step = (now: number) => {
      const part = Math.min(1, Math.max(0, (now - began) / MOTION_MS));
      const between = (a: number, b: number) => a + (b - a) * part;
      this.show({ start: between(from.start, to.start), end: between(from.end, to.end) });
      if (part < 1) this.#frame = requestAnimationFrame(step);
    };
    this.#frame = requestAnimationFrame(step);
  }

  stop(): void {
    cancelAnimationFrame(this.#frame);
  }
}
