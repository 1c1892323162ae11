// From a step to what its layers attended to: Python makes the widget (sglab/widgets/step_opener.py), this shows where it is.

import { type Disposer, type Frame, h } from "@sglab/core";
import type { Opened } from "./opener";
import { makeOpeners, OF_A_BATCH, OF_A_LAUNCH } from "./openers";
import { note, title } from "./parts";

const WIDGETS = [...OF_A_BATCH, ...OF_A_LAUNCH];

export interface StepSource {
  live: boolean;
  get(name: "layers"): number;
  call(name: "open_attention", what: { widget: string; step: number; layer: number }): Promise<Opened>;
}

export interface StepAttention {
  root: HTMLElement;
  /** @param refusal why this step cannot be opened, where it cannot though the engine is recorded. */
  show(step: number, refusal?: string): void;
}

export function makeStepAttention(source: StepSource, frame: Frame, disposer: Disposer): StepAttention {
  const layer = h("input", {
    type: "number",
    class: "sg-field sge-layer",
    min: 0,
    value: 0,
    "aria-label": "Layer",
  });
  const heading = h("div");
  const why = h("div");
  let at = -1;
  const openers = makeOpeners(
    { frame, live: source.live, disposer },
    WIDGETS,
    (widget) => source.call("open_attention", { widget, step: at, layer: Number(layer.value) }),
    [layer],
  );
  const row = h("div", { class: "sge-row" }, "layer", layer, ...openers.buttons);
  const root = h("div", {}, heading, row, why, openers.made); // in sight also where the pane is low

  return {
    root,
    show(step, refusal) {
      at = step;
      const layers = source.get("layers");
      layer.max = String(Math.max(0, layers - 1));
      heading.replaceChildren(title(step < 0 ? "Attention" : `Attention of step ${step}`));
      why.replaceChildren(note(refusal ?? reason(step, layers, source.live)));
      openers.enable(refusal === undefined && step >= 0 && layers > 0);
    },
  };
}

function reason(step: number, layers: number, live: boolean): string {
  if (layers === 0) return "Nothing recorded the engine, or it has no model: there is no attention to open.";
  if (step < 0) return "Go to a step of the engine first.";
  const code = `sglab.step_batch(recording, ${step}, layer)`;
  if (!live) return `A saved page. In a notebook, ${code} is this step's batch.`;
  return (
    `What ${layers === 1 ? "the layer" : `one of ${layers} layers`} attended to: the same rows, slots and pages; the model runs again for its ` +
    `queries, keys and values. In Python: ${code}.`
  );
}
