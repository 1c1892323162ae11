// Scheduler: a recorded engine's requests over its steps.

import { followBox } from "@sglab/engine/growing";
import { Lines } from "@sglab/engine/lines";
import { keepFocus } from "@sglab/engine/parts";
import { makeStepAttention } from "@sglab/engine/step_attention";
import "@sglab/engine/engine_style";
import "./scheduler.css";
import {
  type Cell,
  type Context,
  defineWidget,
  followRun,
  framed,
  h,
  type LegendItem,
  legendMark,
  makeFrame,
  Tabs,
  type TourStep,
  type Track,
  Transport,
  watchTheme,
  whenInSight,
} from "@sglab/core";
import { LABELS, makeBoard } from "./board";
import { LEAST_CHARTS, makeCharts } from "./charts";
import { requestDetails, stepDetails } from "./details";
import { Run, sentence, stepName } from "./model";
import type { SCHEDULER, Step } from "./protocol";

const LEAST_BOARD = 120;
const VIEW_GAP = 12; // between the board and the charts, and below them
const MOST_VIEW = 900; // where nothing limits the height
const TOUR: TourStep[] = [
  { key: "Home", text: "to go to the beginning: no step has run." },
  { key: "ArrowRight", text: "to run one step: the pane at the right says who was taken, and why." },
  { key: "]", text: "to go to the next step that admits, retracts or ends a request." },
  { key: "ArrowDown", text: "to select a request: its line stands out." },
  { key: "r", text: "to read the selected request's life, step by step." },
];

function render({ el, source, selection, disposer }: Context<typeof SCHEDULER>): void {
  const run = new Run();
  const lines = new Lines<Step>(source, (step) => run.add(step));
  let selected: number | undefined;
  let toReveal: Cell | undefined; // once the board has the size of what has come
  let built = false; // tabs open before there is anything to draw
  const transport = new Transport();
  const { growing, label: follow } = followBox(
    transport,
    disposer,
    "Go to the newest step as the engine runs",
  );
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    tour: { name: "scheduler", steps: TOUR },
    onEscape: () => select(undefined),
    keys: () => [
      { keys: ["ArrowDown"], label: "select the next request", run: () => stepRequest(1) },
      { keys: ["ArrowUp"], label: "select the previous request", run: () => stepRequest(-1) },
      { keys: ["r"], label: "the selected request's life", run: () => openTab("request") },
      { keys: ["s"], label: "the step's batch", run: () => openTab("step") },
      { keys: ["o"], label: "open the step's attention", run: () => openTab("attention") },
    ],
  });
  const theme = watchTheme(frame.root, disposer, () => draw.schedule());
  const board = makeBoard(
    () => (run.steps.length ? { run, position: transport.position, selected } : undefined),
    theme,
    frame.tooltip,
    disposer,
    {
      pick: (request, step) => {
        select(request);
        transport.goTo(step + 1);
      },
      drawn: () => paintCharts(),
      resized: () => draw.schedule(),
    },
  );
  const charts = makeCharts();
  frame.view.append(h("div", { class: "ssc-view" }, board.grid.element, charts.canvas));
  disposer.listen(charts.canvas, "pointermove", (event) => {
    const step = charts.stepAt(event.offsetX);
    const text = step === undefined ? undefined : charts.describe(run, source.get("facts"), step);
    frame.tooltip.show(text, event.clientX, event.clientY);
  });
  disposer.listen(charts.canvas, "pointerleave", () => frame.tooltip.hide());
  disposer.listen(charts.canvas, "click", (event) => {
    const step = charts.stepAt(event.offsetX);
    if (step !== undefined) transport.goTo(step + 1);
  });

  const stepPane = h("div");
  const requestPane = h("div");
  const attention = makeStepAttention(source, frame, disposer);
  const tabs = new Tabs(
    [
      { id: "step", label: "Step", panel: stepPane },
      { id: "request", label: "Request", panel: requestPane },
      { id: "attention", label: "Attention", panel: attention.root },
    ],
    "Details",
    disposer,
    () => built && draw.schedule(),
  );
  frame.details.append(tabs.element);
  const openTab = (id: string) => tabs.open(id);

  const chosen = h("select", { class: "sg-select", "aria-label": "Request" });
  disposer.listen(chosen, "change", () => select(chosen.value === "" ? undefined : Number(chosen.value)));
  frame.toolbar.append(h("label", {}, "request", chosen));
  if (source.live) frame.toolbar.append(follow);

  function select(request: number | undefined): void {
    selection.set(request === undefined ? {} : { rid: run.name(request) }, frame);
    choose(request);
  }

  function choose(request: number | undefined): void {
    selected = request;
    chosen.value = request === undefined ? "" : String(request);
    if (request !== undefined) toReveal = { row: request, column: Math.max(0, transport.position - 1) };
    if (run.steps.length) transport.refresh();
    draw.schedule();
  }

  function revealNow(): void {
    const column = Math.max(0, transport.position - 1);
    toReveal = { row: selected ?? firstOf(run.steps[transport.position - 1]), column };
  }

  function stepRequest(step: number): void {
    if (!run.requests.length) return;
    const from = selected ?? (step > 0 ? -1 : run.requests.length);
    select(Math.max(0, Math.min(run.requests.length - 1, from + step)));
  }

  function track(): Track {
    const eventful = run.steps.flatMap((step, i) =>
      step.why?.length ||
      step.retracted?.length ||
      step.finished?.length ||
      step.failed ||
      run.endedAfter(i).length
        ? [i + 1]
        : [],
    );
    const marks = run.steps.flatMap((step, i) => [
      ...(step.retracted?.length ? [{ at: i + 1, label: `${step.retracted.length} retracted` }] : []),
      ...(step.failed ? [{ at: i + 1, label: "the pass failed" }] : []),
    ]);
    return {
      length: run.steps.length,
      granularities: [
        { id: "step", label: "step" },
        { id: "event", label: "admission, retraction, end", stops: eventful },
      ],
      marks,
      name: (position) => stepName(position, run.steps.length),
      describe: (position) => (position === 0 ? "No step has run yet." : sentence(run, position - 1)),
      eventsOfSelection: () =>
        selected === undefined ? undefined : run.stepsOf(selected).map((each) => each + 1),
    };
  }

  function paintCharts(): void {
    if (!run.steps.length) return;
    const scroller = board.grid.element.querySelector(".sg-cells") as HTMLElement;
    const { cellWidth, columns } = board.grid.geometry;
    const width = Math.min(scroller.clientWidth, LABELS + columns * cellWidth + 1);
    const shown = { width, cell: cellWidth, scrolled: scroller.scrollLeft };
    const left = Math.min(frame.room(), MOST_VIEW) - board.grid.element.offsetHeight - VIEW_GAP;
    charts.paint(run, source.get("facts"), transport.position, shown, left, theme());
  }

  const draw = framed(() => {
    if (!run.steps.length || frame.view.clientWidth === 0) return;
    frame.setLegend(legend(run)); // before the room beside it is measured
    board.layout(run, frame.view.clientWidth, Math.max(LEAST_BOARD, frame.room() - LEAST_CHARTS - VIEW_GAP));
    if (toReveal) board.grid.reveal(toReveal);
    toReveal = undefined;
    const at = transport.position - 1;
    const { dark } = theme();
    const facts = source.get("facts");
    const goes = { request: select, step: (step: number) => transport.goTo(step + 1) };
    if (tabs.current === "step") keepFocus(stepPane, stepDetails(run, facts, at, dark, goes));
    if (tabs.current === "request") keepFocus(requestPane, requestDetails(run, selected, at, goes));
    attention.show(at, refusal(run, at));
  });
  built = true;

  function fillChoice(): void {
    if (chosen.options.length === run.requests.length + 1) return;
    const options = run.requests.map(({ rid }, i) => h("option", { value: i }, rid));
    chosen.replaceChildren(h("option", { value: "" }, "all"), ...options);
    chosen.value = selected === undefined ? "" : String(selected);
  }

  /** What is selected in the notebook: by its name, since its number in a batch is another. */
  const selectedNow = () => {
    const at = run.requests.findIndex(({ rid }) => rid === selection.value.rid);
    return at < 0 ? undefined : at;
  };
  const inSight = whenInSight(frame.root, disposer);
  disposer.add(
    selection.on((_, origin) => {
      if (origin !== frame) inSight("selection", () => choose(selectedNow()));
    }),
  );
  fillChoice();
  disposer.add(
    transport.changed.on(() => {
      revealNow();
      draw.schedule();
      board.grid.redraw();
    }),
  );
  followRun(
    { source, frame, disposer },
    () => lines.read(),
    () => {
      run.requests = source.get("requests");
      fillChoice();
      const end = run.steps.length;
      if (!end) {
        const text = "No step has run yet.";
        const remedy = "Step the engine (engine.step(), engine.generate(…)): the steps appear here.";
        frame.setPlaceholder({ kind: "empty", text, remedy });
        return;
      }
      selected ??= selectedNow();
      chosen.value = selected === undefined ? "" : String(selected);
      transport.load(track(), growing.standing(end));
    },
    draw,
  );
}

function firstOf(step: Step | undefined): number {
  return step?.batch[0]?.[0] ?? 0;
}

function legend({ failed, verified }: Run): LegendItem[] {
  const mark = (kind: string) => h("i", { class: `ssc-mark ssc-${kind}`, "aria-hidden": "true" });
  return [
    { label: "waiting", mark: mark("waiting") },
    { label: "prefilled", mark: mark("prefill") },
    { label: "a chunk", mark: mark("chunk") },
    { label: "decoded", mark: mark("decode") },
    ...(verified ? [{ label: "verified drafts", mark: mark("verify") }] : []),
    { label: "holds slots, does not run", mark: mark("paused") },
    { label: "retracted", mark: mark("retracted") },
    { label: "ended", mark: mark("finished") },
    ...(failed ? [{ label: "its pass failed", mark: mark("failed") }] : []),
    { label: "pool: a request's own", mark: mark("private") },
    { label: "in the tree, locked", mark: mark("protected") },
    { label: "evictable", mark: legendMark("hatch") },
    { label: "evicted in the step", mark: mark("evicted") },
    { label: "now", mark: legendMark("cursor") },
  ];
}

/** Why a step's attention cannot be opened; undefined: it can, or nothing can. */
function refusal(run: Run, at: number): string | undefined {
  const step = run.steps[at];
  if (!step || step.opens) return undefined;
  return step.mode === "TARGET_VERIFY"
    ? "This step verified drafts; choose one that did not."
    : "This step ran before it was recorded.";
}

export default defineWidget<typeof SCHEDULER>({ name: "scheduler", version: 1, render });
