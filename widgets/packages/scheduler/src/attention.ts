// From a step to what its layers attended to: Python makes the widget, this shows where it is.

import { type Disposer, type Frame, h } from "@sglab/core";
import { makeOpeners, OF_A_BATCH, OF_A_LAUNCH } from "@sglab/engine/openers";
import { note, title } from "@sglab/engine/parts";
import type { Run } from "./model";
import type { Facts, SchedulerSource } from "./protocol";

const WIDGETS = [...OF_A_BATCH, ...OF_A_LAUNCH];

export interface Attention {
  root: HTMLElement;
  show(run: Run, facts: Facts, step: number): void;
}

export function makeAttention(source: SchedulerSource, frame: Frame, disposer: Disposer): Attention {
  const layer = h("input", {
    type: "number",
    class: "sg-field ssc-layer",
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
  const root = h("div", {}, heading, why, row, openers.made);

  return {
    root,
    show(run, facts, step) {
      at = step;
      const opens = Boolean(run.steps[step]?.opens) && facts.layers > 0;
      layer.max = String(Math.max(0, facts.layers - 1));
      heading.replaceChildren(title(step < 0 ? "Attention" : `Attention of step ${step}`));
      why.replaceChildren(note(reason(run, facts, step, source.live, opens)));
      openers.enable(opens);
    },
  };
}

function reason(run: Run, facts: Facts, step: number, live: boolean, opens: boolean): string {
  if (!run.steps[step]) return "Go to a step first.";
  if (!opens) {
    const drafts = run.steps[step]?.mode === "TARGET_VERIFY";
    return drafts
      ? "This step verified drafts; choose one that did not."
      : "This step ran before it was recorded.";
  }
  const code = `sglab.step_batch(recording, ${step}, layer)`;
  if (!live) return `A saved page. In a notebook, ${code} is this step's batch.`;
  return (
    `What one of ${facts.layers} layers attended to: the same rows, slots and pages; the model runs again for its ` +
    `queries, keys and values. In Python: ${code}.`
  );
}
