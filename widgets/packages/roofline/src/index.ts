// Roofline: points under a GPU's ceilings, on logarithmic axes. Python counts and places them; the library draws.

import "@sglab/engine/engine_style";
import "@sglab/memory/memory.css";
import "./roofline.css";
import {
  type Context,
  defineWidget,
  failure,
  format,
  framed,
  h,
  makeFrame,
  s,
  Tabs,
  type TourStep,
  type Track,
  Transport,
  watchTheme,
} from "@sglab/core";
import { oneAtATime } from "@sglab/engine/asking";
import { showOpened } from "@sglab/engine/openers";
import { button, menu } from "@sglab/memory/parts";
import { attentionForm, type Shapes } from "./controls";
import { type Actions, ceilingsPane, pointPane, tablePane } from "./details";
import { change, figure, MARGIN, type Scene, ticksOf } from "./figure";
import { legendOf } from "./legend";
import { hiddenText, neighbour, type Spot, seriesOf, spotsOf, zoomed } from "./model";
import { drawOverlay, type Ranges, rangesIn } from "./overlay";
import { loadPlotly, type PlotElement, type Plotly } from "./plotly";
import type { Machine, ROOFLINE } from "./protocol";
import { sentence } from "./words";

const LEAST = { width: 360, height: 320 };
const TALLEST = 860;
const CONFIG = {
  displayModeBar: false,
  responsive: false,
  scrollZoom: false,
  doubleClick: false, // see bind
  showTips: false, // its note would lie over the host's own bars
};
const TOUR: TourStep[] = [
  { key: "Home", text: "to go to the beginning: only the roofs are there." },
  {
    key: "ArrowRight",
    text: "to go to the first point; below a timed one's roof a dotted line is what it leaves unused.",
  },
  { key: "End", text: "to go to the last point; ↑ and ↓ stay in a point's series." },
  { key: "m", text: "to see the points under another GPU's ceilings." },
  { key: "c", text: "to see where the ceilings are published." },
];

function render({ el, source, disposer }: Context<typeof ROOFLINE>): void {
  let plotly: Plotly | undefined;
  let spots: Spot[] = [];
  let chosen = "";
  let told = ""; // what Python chose last
  let bound = false;
  let wanted: number | undefined; // the index of the point that the form adds
  let known = 0; // points

  const transport = new Transport();
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    tour: { name: "roofline", steps: TOUR },
    onEscape: () => transport.goTo(0),
    keys: () => [
      {
        keys: ["ArrowDown"],
        label: "the next point of the series",
        run: () => alongSeries(1),
      },
      {
        keys: ["ArrowUp"],
        label: "the previous point of the series",
        run: () => alongSeries(-1),
      },
      { keys: ["m"], label: "the next machine", run: () => choose(nextMachine()) },
      { keys: ["c"], label: "the ceilings and their sources", run: () => tabs.open("ceilings") },
      { keys: ["t"], label: "all points as a table", run: () => tabs.open("points") },
      { keys: ["w"], label: "open the point's launch in WarpRoles", run: () => openNow("WarpRoles") },
      { keys: ["k"], label: "open it in KernelDebugger", run: () => openNow("KernelDebugger") },
      { keys: ["0"], label: "all of the picture", run: () => whole() },
    ],
  });
  const theme = watchTheme(frame.root, disposer, () => redraw.schedule());
  const plot: PlotElement = h("div", { class: "srf-plot", "data-picture": "", role: "img" });
  const overlay = s("svg", { class: "srf-overlay", "aria-hidden": "true" });
  const made = h("ul", { class: "sg-list" });
  frame.view.append(h("div", { class: "srf-stage" }, plot, overlay), made);
  const [pointPanel, pointsPanel, ceilingsPanel] = [h("div"), h("div"), h("div")];
  let built = false; // tabs open before there is anything to draw
  const tabs = new Tabs(
    [
      { id: "point", label: "Point", panel: pointPanel },
      { id: "points", label: "All points", panel: pointsPanel },
      { id: "ceilings", label: "Ceilings", panel: ceilingsPanel },
    ],
    "Details",
    disposer,
    () => built && redraw.schedule(),
  );
  built = true;
  frame.details.append(tabs.element);

  const failed = (error: unknown) => frame.notify("error", (error as Error).message);
  const machines = menu(
    "ceilings of",
    source.get("machines").map(({ name, product }) => [name, product] as const),
    (name) => choose(name),
  );
  const elsewhere = h("span", { class: "sg-muted" });
  frame.toolbar.append(
    machines.root,
    button("whole picture", "whole picture: all points and roofs (0)", () => whole()),
    elsewhere,
  );
  if (source.live)
    frame.more.append(
      ...attentionForm(
        source.get("texts"),
        disposer,
        (shapes: Shapes) => {
          frame.clearNotice();
          wanted = source.get("marks").length;
          source.call("add_attention", { ...shapes }).catch(failed);
        },
        failed,
      ),
    );

  const at = () => transport.position - 1;
  const machine = () =>
    (source.get("machines").find(({ name }) => name === chosen) ?? source.get("machines")[0]) as Machine;

  function goTo(spot: number | undefined): void {
    if (spot !== undefined) transport.goTo(spot + 1);
  }

  function alongSeries(step: 1 | -1): void {
    const to = neighbour(spots, at(), step);
    if (to === undefined)
      frame.notify("info", `The series has no point ${step > 0 ? "after" : "before"} this one.`);
    else goTo(to);
  }

  function nextMachine(): string {
    const names = source.get("machines").map(({ name }) => name);
    return names[(names.indexOf(chosen) + 1) % names.length] as string;
  }

  function choose(name: string): void {
    if (source.live) source.call("show", { machine: name }).catch(failed);
    else {
      chosen = name;
      load();
    }
  }

  function whole(): void {
    near = undefined;
    if (plotly && bound)
      void plotly.relayout(plot, { "xaxis.range": all.x, "yaxis.range": all.y }).catch(failed);
  }

  function openNow(widget: string): void {
    const spot = spots[at()];
    if (spot?.mark.opens.includes(widget)) void open(widget, spot.index);
    else frame.notify("info", `Select a point of a launch first: ${widget} shows what it was counted from.`);
  }

  const asking = oneAtATime(frame);
  async function open(widget: string, point: number): Promise<void> {
    if (!source.live) return;
    await asking.run(async () =>
      showOpened({ frame, disposer }, made, await source.call("open_launch", { widget, point })),
    );
  }

  const actions: Actions = {
    live: source.live,
    open: (widget, point) => void open(widget, point),
    remove: (point) => {
      frame.root.focus({ preventScroll: true }); // the button goes with its point: keys stay the widget's
      void source.call("remove", { point }).catch(failed);
    },
    select: goTo,
  };

  const redraw = framed(() => {
    if (!plotly || frame.view.clientWidth === 0) return;
    const width = Math.max(LEAST.width, frame.view.clientWidth - 2);
    const room = frame.room() - 8;
    const height = Math.max(LEAST.height, Math.min(TALLEST, room, Math.round(width * 0.72)));
    drawFigure(plotly, width, height);
    if (tabs.current === "point")
      pointPanel.replaceChildren(
        ...pointPane(spots[at()], machine(), source.get("texts"), actions, spots.length > 0),
      );
    if (tabs.current === "points")
      pointsPanel.replaceChildren(...tablePane(spots, at(), hiddenText(source.get("marks"), chosen), goTo));
    if (tabs.current === "ceilings") ceilingsPanel.replaceChildren(...ceilingsPane(machine()));
  });

  let drawn: unknown[] = []; // what the whole figure on the screen was made of
  let scene: Scene | undefined;
  let all: Ranges = { x: [0, 1], y: [0, 1] };
  let seen = all;
  let ticked = "";
  let near: Ranges | undefined; // where the wheel has zoomed to: the library keeps only what is dragged

  /** All of it, or after a step no more than the step changes. */
  function drawFigure(library: Plotly, width: number, height: number): void {
    scene = { machine: machine(), spots, lit: transport.position, width, height, theme: theme() };
    const made = [scene.machine.name, spots, width, height, scene.theme];
    if (bound && made.every((each, i) => each === drawn[i])) {
      const { style, traces } = change(scene);
      library.restyle(plot, style, traces).catch(failed);
      drawOverlay(overlay, scene, seen);
      return;
    }
    drawn = made;
    frame.setLegend(legendOf(spots, theme().dark)); // its lines have the theme's colours
    const { data, layout } = figure(scene);
    const { xaxis, yaxis } = layout as Record<"xaxis" | "yaxis", { range: [number, number] }>;
    all = { x: [...xaxis.range], y: [...yaxis.range] };
    if (near) {
      xaxis.range = near.x;
      yaxis.range = near.y;
    }
    plot.style.height = `${height}px`;
    plot.setAttribute(
      "aria-label",
      `Roofline of ${machine().product}: ${format.plural(spots.length, "point")}`,
    );
    library
      .react(plot, data, layout, CONFIG)
      .then(() => {
        bind();
        follow(plot.layout); // with the reader's zoom, which the library keeps
        ticked = "";
        tick();
      })
      .catch(failed);
  }

  /** The overlay and the ticks follow what the library shows. */
  function follow(shown: object | undefined): void {
    seen = rangesIn(shown, seen);
    if (scene) drawOverlay(overlay, scene, seen);
  }

  function tick(): void {
    if (!plotly || !scene) return;
    const { x, y } = ticksOf(scene, seen);
    const now = String([x.tickvals, y.tickvals]);
    if (now === ticked) return;
    ticked = now;
    const change = { "xaxis.tickvals": x.tickvals, "xaxis.ticktext": x.ticktext };
    void plotly
      .relayout(plot, { ...change, "yaxis.tickvals": y.tickvals, "yaxis.ticktext": y.ticktext })
      .catch(failed);
  }

  /** Ctrl and the wheel zoom, and what is under the pointer stays there. */
  function zoom(event: WheelEvent): void {
    if (!event.ctrlKey || !plotly || !scene) return;
    event.preventDefault();
    const { left, top } = plot.getBoundingClientRect();
    const share = [
      (event.clientX - left - MARGIN.l) / (scene.width - MARGIN.l - MARGIN.r),
      1 - (event.clientY - top - MARGIN.t) / (scene.height - MARGIN.t - MARGIN.b),
    ] as const;
    if (share.some((each) => each < 0 || each > 1)) return;
    const factor = 1.002 ** Math.max(-250, Math.min(250, event.deltaY));
    const at = (range: [number, number], part: number) => range[0] + part * (range[1] - range[0]);
    const x = zoomed(seen.x, at(seen.x, share[0]), factor);
    const y = zoomed(seen.y, at(seen.y, share[1]), factor);
    if (factor > 1 && x[1] - x[0] > all.x[1] - all.x[0]) whole();
    else {
      near = { x, y };
      void plotly.relayout(plot, { "xaxis.range": x, "yaxis.range": y }).catch(failed);
    }
  }

  function bind(): void {
    if (bound) return;
    bound = true;
    plot.on?.("plotly_click", ({ points }) =>
      goTo(points.find(({ customdata }) => customdata !== undefined)?.customdata),
    );
    plot.on?.("plotly_hover", ({ points, event }) => {
      const spot = spots[points[0]?.customdata ?? -1];
      frame.tooltip.show(spot && sentence(spot.mark, chosen), event.clientX, event.clientY);
    });
    plot.on?.("plotly_unhover", () => frame.tooltip.hide());
    plot.on?.("plotly_doubleclick", () => whole());
    plot.on?.("plotly_relayouting", (moving) => follow(moving));
    plot.on?.("plotly_relayout", () => {
      follow(plot.layout);
      tick();
    });
  }

  function load(): void {
    const last = spots[at()];
    const wasAtEnd = transport.position === spots.length;
    spots = spotsOf(source.get("marks"), chosen);
    machines.show(chosen);
    const to = landing(spots, last, wanted);
    if (spots[to]?.index === wanted) wanted = undefined;
    const marks = source.get("marks").length;
    const follows = wasAtEnd && marks > known; // what is added while the last one is shown
    known = marks;
    transport.load(trackOf(spots, chosen), to < 0 || follows ? spots.length : to + 1);
    elsewhere.textContent = hiddenText(source.get("marks"), chosen);
    redraw.schedule();
  }

  function read(): void {
    frame.setHeader(source.get("header"));
    if (source.get("machine") !== told) {
      told = source.get("machine");
      chosen = told;
      near = undefined;
    }
    load();
  }

  disposer.add(transport.changed.on(() => redraw.schedule()));
  disposer.add(() => redraw.cancel());
  disposer.add(() => plotly?.purge(plot));
  disposer.listen(plot, "wheel", zoom, { passive: false });
  disposer.listen(plot, "pointerleave", () => frame.tooltip.hide());
  const resized = new ResizeObserver(() => redraw.schedule());
  resized.observe(frame.view);
  disposer.add(() => resized.disconnect());
  source.onChange("revision", () => plotly && read());
  frame.setHeader(source.get("header"));
  frame.setPlaceholder({ kind: "loading", text: "Loading what draws." });
  loadPlotly(source)
    .then((library) => {
      plotly = library;
      frame.setPlaceholder(null);
      read();
    })
    .catch((error: Error) => frame.setPlaceholder(failure(source, error)));
}

/** The spot to show after a change: what was asked for, what was shown, or of the same run what has a place here. */
function landing(spots: readonly Spot[], last: Spot | undefined, wanted: number | undefined): number {
  const ways: ((spot: Spot) => boolean)[] = [({ index }) => index === wanted];
  if (last) {
    const { label, origin } = last.mark;
    ways.push(({ index, mark }) => index === last.index && mark.label === label && mark.origin === origin);
    ways.push(({ mark }) => mark.label === label && mark.origin === origin);
    ways.push(({ mark }) => mark.label === label);
  }
  return ways.reduce((found, way) => (found >= 0 ? found : spots.findIndex(way)), -1);
}

function trackOf(spots: readonly Spot[], machine: string): Track {
  const begins = seriesOf(spots).map((name) => spots.findIndex(({ mark }) => mark.series === name) + 1);
  return {
    length: spots.length,
    granularities: [
      { id: "point", label: "point" },
      { id: "series", label: "series", stops: begins },
    ],
    describe: (position) => {
      const spot = spots[position - 1];
      return spot ? sentence(spot.mark, machine) : "The roofs alone.";
    },
  };
}

export default defineWidget<typeof ROOFLINE>({ name: "roofline", version: 1, render });
