// From a step to what its layers attended to: Python makes the widget, this shows where it is.

import { type Disposer, type Frame, h } from "@sglab/core";
import { openTab, pageLink } from "@sglab/engine/opener";
import { note, title } from "@sglab/engine/parts";
import type { Run } from "./model";
import type { Facts, SchedulerSource } from "./protocol";

const WIDGETS = [
  ["PageTable", "Page table", "requests, pages, and the kernel that builds the index arrays"],
  ["SplitKV", "Split KV", "how planners cut this batch"],
  ["OnlineSoftmax", "Online softmax", "m, d and O of the first request, tile by tile"],
  ["WarpRoles", "Warp roles", "the attention kernel on the emulator, warp by warp"],
  ["KernelDebugger", "Kernel debugger", "the same kernel, instruction by instruction"],
] as const;

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
  const made = h("ul", { class: "ssc-made" });
  const buttons = WIDGETS.map(([widget, text, about]) => {
    const button = h("button", { type: "button", class: "sg-button", title: about }, text);
    disposer.listen(button, "click", () => void open(widget));
    return button;
  });
  const root = h("div", {}, heading, why, h("div", { class: "sge-row" }, "layer", layer, ...buttons), made);
  let at = -1;
  let opens = false;
  let busy = false;

  async function open(widget: string): Promise<void> {
    if (busy) return;
    busy = true;
    enable();
    frame.root.setAttribute("aria-busy", "true");
    try {
      const opened = await source.call("open_attention", { widget, step: at, layer: Number(layer.value) });
      if (openTab(frame.root, opened)) made.append(h("li", {}, `${opened.title}: in a tab`));
      else {
        const { element, release } = pageLink(opened);
        disposer.add(release);
        made.append(h("li", {}, element));
        element.focus();
      }
    } catch (error) {
      frame.notify("error", (error as Error).message);
    } finally {
      busy = false;
      frame.root.removeAttribute("aria-busy");
      enable();
    }
  }

  function enable(): void {
    for (const each of [layer, ...buttons]) each.disabled = busy || !opens || !source.live;
  }

  return {
    root,
    show(run, facts, step) {
      at = step;
      opens = Boolean(run.steps[step]?.opens) && facts.layers > 0;
      layer.max = String(Math.max(0, facts.layers - 1));
      heading.replaceChildren(title(step < 0 ? "Attention" : `Attention of step ${step}`));
      why.replaceChildren(note(reason(run, facts, step, source.live, opens)));
      enable();
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
