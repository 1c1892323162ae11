// A widget that uses every part of the core and nothing else, for the browser tests.

import {
  CanvasPaint,
  type Context,
  cssBackground,
  defineWidget,
  format,
  h,
  lookOf,
  makeFrame,
  SvgPaint,
  s,
  Transport,
  watchTheme,
} from "@sglab/core";
import { COMMON, command, dict, int, protocol, type Tensor, tensor } from "@sglab/protocol";

const PROBE = protocol("probe", 1, COMMON, {
  traits: {},
  commands: { double: command({ by: int() }, dict<{ doubled: Tensor }>()) },
  tensors: { steps: tensor(null, ["steps"]) },
});

function render({ el, source, selection, disposer }: Context<typeof PROBE>): void {
  const transport = new Transport();
  const values = h("pre", { class: "probe-values" });
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    onEscape: () => selection.set({}),
    keys: () => [{ keys: ["ArrowDown"], label: "next request", run: () => select(1) }],
  });
  const select = (step: number) => selection.set({ request: (selection.value.request ?? -1) + step }, frame);
  watchTheme(frame.root, disposer, () => {});
  frame.setHeader(source.get("header"));

  const swatches = h("div", { class: "probe-swatches" });
  const defs = s("defs");
  const svg = s("svg", { width: 400, height: 20, role: "img", "aria-label": "SVG swatches" }, defs);
  const canvas = h("canvas", { width: 400, height: 20, role: "img", "aria-label": "canvas swatches" });
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  const svgPaint = new SvgPaint(defs, "probe");
  const canvasPaint = new CanvasPaint(1);
  for (let i = 0; i < 20; i++) {
    const look = lookOf(i, false);
    const swatch = h("span", { title: `request ${i}` }, String(i));
    swatch.style.cssText = `display:inline-block;width:20px;color:${look.ink};background:${cssBackground(look)}`;
    swatches.append(swatch);
    svg.append(s("rect", { x: i * 20, width: 20, height: 20, fill: svgPaint.fill(look) }));
    context.fillStyle = canvasPaint.fill(look);
    context.fillRect(i * 20, 0, 20, 20);
  }

  const show = async () => {
    try {
      const steps = await source.slice("steps", 0, 1e9);
      transport.load({
        length: steps.shape[0] as number,
        granularities: [
          { id: "step", label: "step" },
          { id: "page", label: "page", stops: Int32Array.of(0, 4, 8) },
        ],
        marks: [{ at: 4, label: "half" }],
        describe: (at) => (at ? `Value ${steps.data[at - 1]} was read.` : "Nothing has happened."),
        eventsOfSelection: () => Int32Array.of(3, 6),
      });
      frame.setPlaceholder(null);
      values.textContent = format.count(steps.data.length);
    } catch (error) {
      frame.setPlaceholder({ kind: "error", text: String(error), remedy: "Run the cell again." });
    }
  };
  const call = h("button", { type: "button", class: "sg-button probe-call" }, "Double");
  disposer.listen(call, "click", async () => {
    try {
      const { doubled } = await source.call("double", { by: 2 });
      values.textContent = Array.from(doubled.data).join(" ");
    } catch (error) {
      frame.notify("error", (error as Error).message);
    }
  });
  disposer.add(
    selection.on((value) => {
      frame.details.textContent = JSON.stringify(value);
    }),
  );
  frame.toolbar.append(call);
  frame.view.append(swatches, svg, canvas, values);
  frame.setPlaceholder({ kind: "loading", text: "Reading the steps." });
  source.onChange("revision", show);
  show();
}

export default defineWidget<typeof PROBE>({ name: "probe", version: 1, render });
export * as core from "@sglab/core";
