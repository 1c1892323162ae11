// KernelDebugger: a launch on the emulator, stepped in its source and its PTX. Python moves it; this page asks and draws.

import type { KERNEL_DEBUGGER, State } from "./protocol";
import "./kernel_debugger.css";
import {
  type Context,
  defineWidget,
  h,
  type LegendItem,
  makeFrame,
  type TourStep,
  watchTheme,
  whenInSight,
} from "@sglab/core";
import { CodeModel } from "./code_model";
import { Driver } from "./driver";
import { openBackend } from "./open_backend";
import { SessionTransport } from "./session_transport";
import { makeView, type View } from "./view";
import { warpMark, warpName } from "./warp_looks";
import { errorText } from "./words";

const TOUR: TourStep[] = [
  { key: "ArrowRight", text: "to step: one source line of one warp. ← steps back." },
  { key: "ArrowDown", text: "to look at the next warp: its line, its registers." },
  {
    press: ".kd-line[data-code=true] .kd-text",
    text: "a line of the source: it is the cursor; b sets a breakpoint there.",
  },
  { key: "]", text: "to step to the next event: a barrier, a copy, a product." },
  {
    key: "End",
    text: "to run to the end; what the sanitizers find is listed under Findings. ? lists all keys.",
  },
];

const LEGEND = (): LegendItem[] => [
  { label: "where the warp in focus is", mark: mark("now") },
  { label: "what ran last", mark: mark("ran") },
  { label: "the same place in source and PTX", mark: mark("linked") },
];

/** What the marks of this launch's warps mean: some have roles, some ranks, some neither. */
function warpLegend({ warps, findings }: State): LegendItem[] {
  const warp = warps.find(({ role }) => role) ?? warps[0];
  const items: LegendItem[] = [];
  if (warp)
    items.push({ label: warpName(warp), mark: warpMark(warp, new Set(warps.map(({ cta }) => cta)).size) });
  if (findings.length)
    items.push({ label: "who takes part in a finding", mark: h("span", { class: "kd-party-mark" }, "1") });
  return items;
}

function mark(kind: string): HTMLElement {
  return h("i", { class: `sg-legend-mark kd-legend-${kind}`, "aria-hidden": "true" });
}

function render({ el, source, selection, disposer }: Context<typeof KERNEL_DEBUGGER>): void {
  let driver: Driver | undefined;
  let view: View | undefined;
  const transport = new SessionTransport(() => driver);
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    onEscape: () => view?.escape(),
    tour: { name: "kernel_debugger", steps: TOUR },
    keys: () => view?.keys() ?? [],
  });
  frame.setHeader(source.get("header"));
  frame.setLegend(LEGEND());
  frame.setPlaceholder({ kind: "loading", text: "Reading the kernel's code." });
  const inSight = whenInSight(frame.root, disposer);
  const theme = watchTheme(frame.root, disposer, () => view?.repaint());

  const open = async () => {
    const code = await CodeModel.read(source);
    driver = new Driver(await openBackend(source, code));
    view = makeView({ frame, source, selection, disposer, transport, driver, code, theme, inSight });
    let legend = "";
    disposer.add(
      driver.changed.on((state) => {
        const items = warpLegend(state);
        const words = items.map(({ label }) => label).join();
        if (!items.length || words === legend) return;
        legend = words;
        frame.setLegend([...LEGEND(), ...items]);
      }),
    );
    await view.open();
    frame.setPlaceholder(null);
    driver.refresh();
  };
  open().catch((error: unknown) => {
    frame.setPlaceholder({
      kind: "error",
      text: errorText(error, source.live),
      remedy: source.live
        ? "Run the cell again."
        : "Open it with the sglab that wrote it, or save the widget again.",
    });
  });
}

export default defineWidget<typeof KERNEL_DEBUGGER>({ name: "kernel_debugger", version: 1, render });
