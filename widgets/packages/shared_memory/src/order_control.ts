// How many of a tile's chunks are lit: by a slider, or one after the other.

import { type Disposer, format, h, setText } from "@sglab/core";
import { button } from "@sglab/memory/parts";

const PLAY_MS = 40;
const STEPS = 128;

export interface OrderControl {
  root: HTMLElement;
  readonly lit: number;
  /** Another tile: all of its chunks are lit. */
  reset(count: number): void;
  play(): void;
}

export function orderControl(disposer: Disposer, changed: () => void): OrderControl {
  let count = 0;
  let lit = 0;
  let timer: ReturnType<typeof setInterval> | undefined;
  const slider = h("input", {
    type: "range",
    class: "ssm-order",
    min: 0,
    "aria-label": "Chunks read so far",
  });
  const text = h("output");
  disposer.listen(slider, "input", () => light(Number(slider.value)));
  disposer.add(() => clearInterval(timer));

  const set = (next: number) => {
    lit = next;
    slider.max = String(count);
    slider.value = String(lit);
    setText(text, `${format.count(lit)} of ${format.count(count)} chunks of 16 bytes`);
    changed();
  };
  const light = (next: number) => {
    clearInterval(timer);
    timer = undefined;
    set(next);
  };
  const play = () => {
    if (timer !== undefined || matchMedia("(prefers-reduced-motion: reduce)").matches) {
      light(count);
      return;
    }
    set(lit >= count ? 0 : lit);
    const step = Math.max(1, Math.round(count / STEPS));
    timer = setInterval(() => {
      if (lit + step >= count) light(count);
      else set(lit + step);
    }, PLAY_MS);
  };

  return {
    root: h(
      "div",
      { class: "ssm-row sg-control" },
      h("label", { class: "smv-label" }, "read so far ", slider),
      text,
      button("▶ in order", "Light up the chunks in the order in which they are read (o)", play),
      button("all", "Light up all chunks", () => light(count)),
    ),
    get lit() {
      return lit;
    },
    reset(next) {
      count = next;
      light(next);
    },
    play,
  };
}
