// Ranks: collectives of a pass on every rank, and who holds which part of the weights.

import type { RANKS } from "./protocol";
import "./ranks.css";
import {
  type Context,
  defineWidget,
  followRun,
  format,
  framed,
  h,
  type LegendItem,
  legendMark,
  makeFrame,
  type TourStep,
  Transport,
  watchTheme,
} from "@sglab/core";
import { oneAtATime, stepsAsked } from "@sglab/engine/asking";
import "@sglab/engine/engine_style";
import { makeOpeners, OF_A_BATCH, OF_A_LAUNCH } from "@sglab/engine/openers";
import { layerOf, type Recorded, readRun } from "./data";
import { kindsOf } from "./looks";
import { layersOf } from "./shards_view";
import { trackOf } from "./steps";
import type { Axis } from "./timeline_view";
import { makeView } from "./view";

const TOUR: TourStep[] = [
  { key: "Home", text: "to go to the beginning of the pass." },
  {
    key: "ArrowRight",
    text: "to the first collective: why it is needed, its bytes, and who waits for whom.",
  },
  { key: "t", text: "to give every collective the same room; t again: measured time." },
  { key: "w", text: "to see which rank holds which part of the weights." },
  { key: "]", text: "to go on by a layer. ? lists all keys." },
];

const OPENED = [...OF_A_BATCH.filter(({ widget }) => widget !== "OnlineSoftmax"), ...OF_A_LAUNCH];

/** Of what the pass has. */
const legendOf = ({ joints }: Recorded): LegendItem[] => [
  ...kindsOf(joints).map(({ names, look }) => ({ label: names.join(", "), look })),
  { label: "waits for the last rank", mark: legendMark("dashes") },
  { label: "computes", mark: legendMark("shade") },
  { label: "now", mark: legendMark("cursor") },
];

function render({ el, source, disposer }: Context<typeof RANKS>): void {
  let recorded: Recorded | undefined;
  let axis: Axis = "time";
  let layer = "0";
  const transport = new Transport();
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    tour: { name: "ranks", steps: TOUR },
    keys: () => [
      { keys: ["ArrowDown"], label: "weights of the next layer", run: () => stepLayer(1) },
      { keys: ["ArrowUp"], label: "weights of the layer before", run: () => stepLayer(-1) },
      {
        keys: ["t"],
        label: "over time, or in order",
        run: () => setAxis(axis === "time" ? "order" : "time"),
      },
      { keys: ["w"], label: "collectives, or shards of the weights", run: () => view.nextTab() },
      ...(source.live
        ? [
            { keys: ["."], label: "next pass", run: () => stepPass(1) },
            { keys: [","], label: "previous pass", run: () => stepPass(-1) },
          ]
        : []),
    ],
  });
  const theme = watchTheme(frame.root, disposer, () => draw.schedule());
  const asking = oneAtATime(frame, {
    refused: () => {
      if (recorded) pass.value = String(recorded.step);
    },
  });
  const ask = (step: number) => asking.run(() => source.call("show", { step }));
  const pass = h("select", { class: "sg-select", "aria-label": "Pass" });
  const axes = h("select", { class: "sg-select", "aria-label": "Axis" });
  axes.append(h("option", { value: "time" }, "measured time"), h("option", { value: "order" }, "order"));
  const layers = h("select", { class: "sg-select", "aria-label": "Weights of" });
  disposer.listen(pass, "change", () => void ask(Number(pass.value)));
  disposer.listen(axes, "change", () => setAxis(axes.value as Axis));
  disposer.listen(layers, "change", () => setLayer(layers.value));
  if (source.live) frame.toolbar.append(h("label", {}, "pass", pass));
  frame.toolbar.append(h("label", {}, "axis", axes), h("label", {}, "weights of", layers));
  const attention = h("span", { class: "sg-muted" });
  const openers = makeOpeners({ frame, live: source.live, disposer }, OPENED, (widget) =>
    source.call("open_widget", { widget, layer: Number(layer) }),
  );
  frame.more.append(attention, ...openers.buttons, openers.made);
  const view = makeView(frame, disposer, theme, (joint) => transport.goTo(joint + 1));
  const draw = framed(() => {
    if (!recorded || frame.view.clientWidth === 0) return; // drawn when it is laid out
    view.draw({ recorded, position: transport.position, axis, layer });
  });

  function setAxis(next: Axis): void {
    axis = next;
    axes.value = next;
    draw.schedule();
  }

  function setLayer(next: string): void {
    layer = next;
    layers.value = next;
    showOpeners();
    draw.schedule();
  }

  /** Of a layer that attends; "around" the layers nothing does. */
  function showOpeners(): void {
    const attends = layer !== "around" && layer !== "";
    attention.textContent = attends
      ? `attention of layer ${layer}, first prefill:`
      : "attention: choose a layer";
    openers.enable(attends);
  }

  function stepLayer(step: number): void {
    const all = recorded ? layersOf(recorded.weights) : [];
    const next = all[all.indexOf(layer) + step];
    if (next !== undefined) setLayer(next);
  }

  const stepPass = stepsAsked(
    () => source.get("step"),
    () => source.get("passes").length,
    ask,
  );

  disposer.add(
    transport.changed.on(() => {
      const found = layerOf(recorded?.joints[transport.position - 1]?.module ?? "");
      if (found !== undefined && recorded && layersOf(recorded.weights).includes(String(found)))
        setLayer(String(found));
      draw.schedule();
    }),
  );
  followRun(
    { source, frame, disposer },
    () => readRun(source),
    (read) => {
      recorded = read;
      frame.setLegend(legendOf(read));
      pass.replaceChildren(
        ...read.passes.map(({ number, modes, tokens }, at) =>
          h(
            "option",
            { value: at },
            `${number} · ${modes.join(", ").toLowerCase().replaceAll("_", " ")}, ${format.plural(
              tokens.reduce((sum, each) => sum + each, 0),
              "token",
            )}`,
          ),
        ),
      );
      pass.value = String(read.step);
      const all = layersOf(read.weights);
      layers.replaceChildren(
        ...all.map((each) =>
          h("option", { value: each }, each === "around" ? "around the layers" : `layer ${each}`),
        ),
      );
      if (!all.includes(layer)) layer = all[0] ?? "";
      layers.value = layer;
      showOpeners();
      transport.load(
        trackOf(read, () => (layer === "around" ? undefined : `model.layers.${layer}.`)),
        read.joints.length,
      );
    },
    draw,
  );
}

export default defineWidget<typeof RANKS>({ name: "ranks", version: 1, render });
