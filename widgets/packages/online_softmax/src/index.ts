// OnlineSoftmax: a head's scores arrive tile by tile, splits leave partials, partials merge; rightly or not.

import type { ONLINE_SOFTMAX, Place, Question } from "./protocol";
import "./online_softmax.css";
import {
  type Context,
  type Deed,
  defineWidget,
  failure,
  framed,
  h,
  historyOf,
  keepPlace,
  type LegendItem,
  legendMark,
  makeFrame,
  requestsOf,
  type TourStep,
  Transport,
  watchTheme,
  whenInSight,
} from "@sglab/core";
import { type Choices, HELD } from "./choices";
import { makeControls } from "./controls";
import { readRun } from "./data";
import { FORMULAS, RULES } from "./formulas";
import { ORDERS } from "./merge";
import { Model } from "./model";
import { selectionOf, splitOf } from "./selected";
import { makeView } from "./view";

const NONE: readonly string[] = [];
const TOUR: TourStep[] = [
  { key: "ArrowRight", text: "to take in the next tile of keys: the equations show its numbers." },
  { key: "]", text: "to finish the split: it leaves a partial, O and its LSE." },
  { key: "End", text: "to merge all partials, and see how far from float64 the result is." },
  { key: "r", text: "to choose another recurrence, right ones first, then wrong ones: look at the error." },
  { key: "ArrowDown", text: "to select a split and what its partial holds. ? lists all keys." },
];

const LEGEND = (): LegendItem[] => [
  { label: "the running maximum m", mark: legendMark("line") },
  { label: "this tile", mark: legendMark("outline") },
  { label: "charts dashed: the right recurrence", mark: legendMark("dashes") },
  { label: "error: ‖O − float64‖ / ‖float64‖ over the same keys, everywhere" },
  { label: "strips: orange above 0, blue below" },
];

function render({ el, source, selection: shared, disposer }: Context<typeof ONLINE_SOFTMAX>): void {
  const selection = requestsOf(() => model.recorded?.info.names ?? NONE, shared);
  let asking = false;
  let opened = false;
  let waiting: Partial<Question> | undefined; // chosen meanwhile
  const transport = new Transport();

  const selectedSplit = (): number | undefined => {
    return model.recorded && splitOf(model.recorded, selection.value);
  };
  const model = new Model(transport, selectedSplit, () => {
    if (model.recorded) controls.show(model.choices, model.recorded);
    if (opened) moved();
    draw.schedule();
  });
  const { choices } = model;
  const moved = keepPlace(
    { live: source.live, connection: () => source.connection },
    disposer,
    () => model.place,
    (place) => source.set("place", place),
  );
  const history = historyOf(disposer);

  const frame = makeFrame(el, disposer, {
    source,
    transport,
    tour: { name: "online_softmax", steps: TOUR },
    onEscape: () => {
      model.armed = undefined;
      selection.set({});
      draw.schedule();
    },
    keys: () => [
      { keys: ["ArrowDown"], label: "select the next split", run: () => stepSplit(1) },
      { keys: ["ArrowUp"], label: "select the previous split", run: () => stepSplit(-1) },
      {
        keys: ["r"],
        label: "next recurrence",
        run: () => choose({ formula: next(FORMULAS, choices.formula) }),
      },
      { keys: ["m"], label: "next merge rule", run: () => choose({ rule: next(RULES, choices.rule) }) },
      {
        keys: ["o"],
        label: "next order of merges",
        run: () => choose({ order: next(ORDERS, choices.order) }),
      },
      {
        keys: ["2"],
        label: "natural or base 2",
        run: () => choose({ base: choices.base === "e" ? "2" : "e" }),
      },
      { keys: ["e"], label: "what the selected partial holds", run: () => cycleHeld() },
      { keys: ["u"], label: "undo the last merge by hand", run: () => act(() => model.undo()) },
    ],
  });
  const theme = watchTheme(frame.root, disposer, () => draw.schedule());
  const controls = makeControls(disposer, source.live, choose, change);
  const progress = h("progress", { max: 1, hidden: true, "aria-label": "Progress" });
  source.onChange("progress", () => {
    progress.value = source.get("progress");
  });
  const other = h("button", { type: "button", class: "sg-button", hidden: true });
  disposer.listen(other, "click", () => change({ request: selection.value.request as number }));
  frame.toolbar.append(...controls.parts, other, progress);
  frame.more.append(...controls.more);
  frame.setLegend(LEGEND());
  if (!source.live)
    frame.notify(
      "info",
      "A saved page: step, merge and break it here; open the notebook for another head or tile.",
    );

  const view = makeView(frame, disposer, model, {
    act,
    goToTile: (step) => transport.goTo(model.steps?.endOfTile(step) ?? 0),
    press: (node) => {
      if (model.joins(node)) act(() => model.join(node));
      else if (node < (model.recorded?.splits ?? 0)) selectSplit(node);
      else transport.goTo(model.endOf(node));
    },
  });
  const draw = framed(() => {
    const width = frame.view.clientWidth;
    const { recorded } = model;
    if (!recorded || width === 0) return; // not laid out: `visible` draws it when it is
    view.draw(transport.position, selectedSplit(), theme(), width);
    const asked = selection.value.request ?? recorded.question.request;
    other.hidden = !source.live || asked === recorded.question.request || asked >= recorded.info.batchSize;
    other.textContent = `show request ${recorded.info.names?.[asked] ?? asked}`;
  });

  /** Returns whether it was recorded. */
  async function ask(asked: Partial<Question>): Promise<boolean> {
    if (asking) return false;
    asking = true;
    frame.clearNotice();
    frame.root.setAttribute("aria-busy", "true");
    progress.value = 0;
    progress.hidden = false;
    try {
      await source.call("edit", { ...asked });
      return true;
    } catch (error) {
      frame.notify("error", (error as Error).message);
      if (model.recorded) controls.show(choices, model.recorded);
      return false;
    } finally {
      asking = false;
      frame.root.removeAttribute("aria-busy");
      progress.hidden = true;
      const next = waiting;
      waiting = undefined;
      if (next) change(next);
    }
  }

  /** A question to Python, to be taken back. */
  function change(asked: Partial<Question>): void {
    if (asking) {
      waiting = { ...waiting, ...asked };
      return;
    }
    const { question } = model.recorded ?? {};
    const before =
      question && Object.fromEntries(Object.keys(asked).map((key) => [key, question[key as keyof Question]]));
    const deed: Deed | undefined = before && { undo: () => ask(before), redo: () => ask(asked) };
    if (deed) history.did(deed);
    void ask(asked).then((done) => done || (deed && history.forget(deed)));
  }

  /** Something that the page does by itself, to be taken back. */
  function act(run: () => void): void {
    const { turn } = model;
    const undo = model.wayBack();
    run();
    if (model.turn !== turn) history.did({ undo, redo: model.wayBack() });
  }

  function choose(chosen: Partial<Choices>): void {
    act(() => model.choose(chosen));
  }

  function selectSplit(split: number): void {
    if (model.recorded) selection.set(selectionOf(model.recorded, split), frame);
  }

  function stepSplit(step: number): void {
    const splits = model.recorded?.splits ?? 0;
    const from = selectedSplit() ?? (step > 0 ? -1 : splits);
    selectSplit(Math.max(0, Math.min(splits - 1, from + step)));
  }

  function cycleHeld(): void {
    const split = selectedSplit();
    if (split !== undefined) act(() => model.hold(split, next(HELD, model.held.get(split) ?? "kernel")));
  }

  async function reload(): Promise<void> {
    try {
      const read = await readRun(source);
      frame.setHeader(source.get("header"));
      frame.setPlaceholder(null);
      const first = model.recorded === undefined;
      model.load(read);
      const place = source.get("place");
      if (first && !source.live && place?.choices) model.goTo(place as Place); // older pages have none
      opened = true;
      moved();
      draw.now();
    } catch (error) {
      frame.setPlaceholder(failure(source, error));
    }
  }

  disposer.add(() => draw.cancel());
  disposer.add(
    transport.changed.on(() => {
      if (opened) moved();
      draw.schedule();
    }),
  );
  const inSight = whenInSight(frame.root, disposer);
  disposer.add(selection.on(() => inSight("selection", draw.schedule)));
  const resized = new ResizeObserver(() => draw.schedule());
  resized.observe(frame.view);
  // JupyterLab takes cells out of the page and puts them back
  const visible = new IntersectionObserver(() => draw.schedule());
  visible.observe(frame.view);
  disposer.add(() => {
    resized.disconnect();
    visible.disconnect();
  });
  source.onChange("revision", () => void reload());
  frame.setHeader(source.get("header"));
  frame.setPlaceholder({ kind: "loading", text: "Reading what was recorded." });
  void reload();
}

/** The name after `name`, around. */
function next<T extends object>(all: T, name: keyof T): keyof T {
  const names = Object.keys(all) as (keyof T)[];
  return names[(names.indexOf(name) + 1) % names.length] as keyof T;
}

export default defineWidget<typeof ONLINE_SOFTMAX>({ name: "online_softmax", version: 1, render });
