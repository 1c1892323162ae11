// OnlineSoftmax: a head's scores arrive tile by tile, splits leave partials, partials merge; rightly or not.

import "./online_softmax.css";
import {
  type Context,
  defineWidget,
  framed,
  type Header,
  h,
  makeFrame,
  SvgPaint,
  s,
  Transport,
  uniqueId,
  watchTheme,
} from "../core";
import { type Choices, makeControls } from "./controls";
import { type Question, type Recorded, readRun } from "./data";
import { conclusion, formulaNotes, splitDetails } from "./details";
import { FORMULAS, RULES } from "./formulas";
import { historyView } from "./history_view";
import { ORDERS, type Plan, planOf, relativeError, roots } from "./merge";
import { mergeTable } from "./merge_table";
import { treeView } from "./merge_view";
import { top as topText } from "./numbers";
import { outputView } from "./output_view";
import { registersAt, tilesDone, tilesSeen } from "./registers";
import { registersView } from "./registers_view";
import { exactWhole, HELD, type Held, nodesOf, type Result, resultsOf, shareOf } from "./results";
import { drawScores, tokenAt } from "./scores_view";
import { type Moment, PHASES, type Steps, stepsOf } from "./steps";
import { stripsAt } from "./strips";

function render({ el, source, selection, disposer }: Context): void {
  let recorded: Recorded | undefined;
  let steps: Steps | undefined;
  let results: Result[] = [];
  let plan: Plan = [];
  let armed: number | undefined;
  let held = new Map<number, Held>();
  let asking = false;
  const choices: Choices = { formula: "online", rule: "v2_guarded", order: "fold", base: "e" };

  const transport = new Transport();
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    onEscape: () => {
      armed = undefined;
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
      { keys: ["u"], label: "undo the last merge by hand", run: () => undo() },
    ],
  });
  const theme = watchTheme(frame.root, disposer, () => draw.schedule());
  const controls = makeControls(disposer, source.live, choose, ask);
  frame.toolbar.append(...controls.parts);
  if (!source.live)
    frame.notify(
      "info",
      "A saved page: step, merge and break it here; open the notebook for another head or tile.",
    );

  const defs = s("defs");
  const scores = s("svg", { class: "sgs-scores", role: "img" }, defs);
  const paint = new SvgPaint(defs, uniqueId("scores"));
  const registers = h("div", { class: "sgs-registers" });
  const history = h("div");
  const output = outputView();
  const tree = h("div", { class: "sgs-tree-box" });
  const result = h("div", { "aria-live": "polite" });
  const reset = h("button", { type: "button", class: "sg-button" }, "start over");
  const undoButton = h("button", { type: "button", class: "sg-button" }, "undo");
  const other = h("button", { type: "button", class: "sg-button", hidden: true });
  const byHand = h("span", { class: "sgs-hand" }, "Press two partials to merge them.", undoButton, reset);
  disposer.listen(undoButton, "click", () => undo());
  disposer.listen(reset, "click", () => choose({ order: "hand" }));
  disposer.listen(other, "click", () => ask({ request: selection.value.request as number }));
  frame.toolbar.append(other);
  const heading = (text: string, ...more: HTMLElement[]) =>
    h("div", { class: "sg-heading sgs-heading" }, text, ...more);
  frame.view.append(
    heading("Scores of the keys, in tiles"),
    scores,
    registers,
    history,
    heading("O, one cell per dimension"),
    output.root,
    heading("Partials and merges", byHand),
    tree,
    result,
  );

  scores.addEventListener("click", (event) => {
    if (!recorded || !steps) return;
    const token = tokenAt(recorded, frame.view.clientWidth, event.offsetX);
    transport.goTo(steps.endOfTile(recorded.tiles.findIndex((tile) => token < tile.end)));
  });
  scores.addEventListener("pointermove", (event) => {
    if (!recorded) return;
    const token = tokenAt(recorded, frame.view.clientWidth, event.offsetX);
    const step = recorded.tiles.findIndex((tile) => token < tile.end);
    const text = `key ${token}, split s${recorded.tiles[step]?.split}, tile ${step + 1}\nscore ${topText(recorded.scores[token] as number, choices.base)}`;
    frame.tooltip.show(text, event.clientX, event.clientY);
  });
  scores.addEventListener("pointerleave", () => frame.tooltip.hide());

  const selectedSplit = (): number | undefined => {
    const { request, split } = selection.value;
    const mine = request === undefined || request === recorded?.question.request;
    return mine && split !== undefined && split < (recorded?.splits ?? 0) ? split : undefined;
  };

  function choose(change: Partial<Choices>): void {
    Object.assign(choices, change);
    armed = undefined;
    if (change.order !== undefined) plan = planOf(choices.order, recorded?.splits ?? 0);
    restate();
    if (change.order && steps && recorded) {
      const allSplits = steps.endOfSplit(recorded.splits - 1);
      transport.goTo(change.order === "hand" ? allSplits : transport.track.length);
    }
  }

  /** Everything that follows from the recording and the choices; the position stays where it can. */
  function restate(): void {
    if (!recorded) return;
    results = resultsOf(recorded, choices.formula, choices.rule, plan, held);
    steps = stepsOf({ recorded, formula: choices.formula, plan, base: choices.base, selectedSplit });
    controls.show(choices, recorded);
    transport.load(steps.track);
    draw.schedule();
  }

  async function ask(change: Partial<Question>): Promise<void> {
    if (asking) return;
    asking = true;
    frame.clearNotice();
    frame.root.setAttribute("aria-busy", "true");
    try {
      await source.call<number>("edit", { ...change });
    } catch (error) {
      frame.notify("error", (error as Error).message);
      if (recorded) controls.show(choices, recorded);
    } finally {
      asking = false;
      frame.root.removeAttribute("aria-busy");
    }
  }

  function press(node: number): void {
    if (!recorded || !steps) return;
    const open = roots(plan, recorded.splits);
    if (choices.order !== "hand" || !open.includes(node)) {
      if (node < recorded.splits) selectSplit(node);
      else transport.goTo(steps.endOfMerge(node - recorded.splits));
      return;
    }
    if (armed === undefined || armed === node) {
      armed = armed === node ? undefined : node;
      draw.schedule();
      return;
    }
    plan = [...plan, [armed, node]];
    armed = undefined;
    restate();
    transport.goTo(transport.track.length);
  }

  function undo(): void {
    if (choices.order !== "hand" || plan.length === 0) return;
    plan = plan.slice(0, -1);
    armed = undefined;
    restate();
  }

  function selectSplit(split: number): void {
    if (!recorded) return;
    selection.set({ request: recorded.question.request, split }, frame);
  }

  function stepSplit(step: number): void {
    if (!recorded) return;
    const from = selectedSplit() ?? (step > 0 ? -1 : recorded.splits);
    selectSplit(Math.max(0, Math.min(recorded.splits - 1, from + step)));
  }

  function hold(split: number, what: Held): void {
    if (what === "kernel") held.delete(split);
    else held.set(split, what);
    restate();
  }

  function cycleHeld(): void {
    const split = selectedSplit();
    if (split !== undefined) hold(split, next(HELD, held.get(split) ?? "kernel"));
  }

  function ready(node: number): boolean {
    if (!recorded || !steps) return false;
    const end = node < recorded.splits ? steps.endOfSplit(node) : steps.endOfMerge(node - recorded.splits);
    return end <= transport.position;
  }

  const draw = framed(() => {
    const width = frame.view.clientWidth;
    if (!recorded || !steps || width === 0) return;
    const run = recorded;
    const moment = steps.at(transport.position);
    const now = registersAt(run, choices.formula, moment);
    const { formula, base } = choices;
    const done = tilesDone(run, moment);
    const summed = Array.from({ length: done }, (_, step) => run.state(formula, step).top);
    if (now && now.done >= 2 && now.done < 4) summed.push(now.top);
    drawScores(
      scores,
      {
        recorded: run,
        base,
        seen: tilesSeen(run, moment),
        current: moment.kind === "tile" ? moment.step : undefined,
        tops: formula === "unshifted" ? [] : summed,
        selectedSplit: selectedSplit(),
      },
      paint,
      theme(),
      width,
    );
    registers.replaceChildren(registersView(run, formula, base, now, () => resting(run, moment)));
    history.replaceChildren(historyView({ recorded: run, formula, base, done }, width));
    output.paint(stripsAt(run, results, moment, now, exactWhole(run, held).o), theme(), width);
    drawTree(run, width);
    drawDetails(run);
    const asked = selection.value.request;
    other.hidden =
      !source.live || asked === undefined || asked === run.question.request || asked >= run.info.batchSize;
    other.textContent = `show request ${asked}`;
  });

  function drawTree(run: Recorded, width: number): void {
    const focused = (tree.getRootNode() as Document | ShadowRoot).activeElement;
    const node = focused && tree.contains(focused) ? (focused as HTMLElement).dataset.node : undefined;
    const open = roots(plan, run.splits);
    const view = treeView(
      {
        nodes: nodesOf(results, held, ready),
        plan,
        splits: run.splits,
        base: choices.base,
        order: choices.order,
        open,
        armed,
        selectedSplit: selectedSplit(),
      },
      theme(),
      width,
      press,
    );
    tree.replaceChildren(view);
    if (node !== undefined)
      view.querySelector<HTMLElement>(`[data-node="${node}"]`)?.focus({ preventScroll: true });
    byHand.hidden = choices.order !== "hand";
    undoButton.disabled = plan.length === 0;
    const final =
      open.length === 1 && transport.position === transport.track.length
        ? results[open[0] as number]
        : undefined;
    const truth = exactWhole(run, new Map()).o;
    result.replaceChildren(
      conclusion(run, choices.base, final, relativeError(run.kernelO, truth), held.size > 0),
    );
  }

  function drawDetails(run: Recorded): void {
    const split = selectedSplit();
    const parts = formulaNotes(choices);
    if (split === undefined)
      parts.push(
        h(
          "p",
          { class: "sgs-note" },
          "Press a partial, or the ↓ key, to see it and to change what it holds.",
        ),
      );
    else
      parts.push(
        splitDetails(
          run,
          split,
          results[split] as Result,
          shareOf((results[split] as Result).truth, exactWhole(run, held)),
          held.get(split) ?? "kernel",
          (what) => hold(split, what),
        ),
      );
    frame.details.replaceChildren(...parts);
  }

  function resting(run: Recorded, moment: Moment): HTMLElement {
    if (moment.kind === "merge") return mergeTable(results, plan, run.splits, moment.index, choices.base);
    const text =
      moment.kind === "partial"
        ? `Split s${moment.split} got no keys: no CTA writes its partial.`
        : "Nothing has arrived. Step with → or press play.";
    return h("p", { class: "sgs-note" }, text);
  }

  async function reload(): Promise<void> {
    try {
      const before = recorded;
      const read = await readRun(source);
      recorded = read;
      if (before?.splits !== read.splits || before.question.request !== read.question.request) {
        held = new Map();
        plan = planOf(choices.order, read.splits);
      }
      frame.setHeader(source.get<Header>("header"));
      frame.setPlaceholder(null);
      restate();
      if (!before) {
        transport.setGranularity("tile");
        transport.goTo(PHASES.length);
      }
      draw.now();
    } catch (error) {
      frame.setPlaceholder({ kind: "error", text: (error as Error).message, remedy: "Run the cell again." });
    }
  }

  disposer.add(() => draw.cancel());
  disposer.add(transport.changed.on(() => draw.schedule()));
  disposer.add(selection.on(() => draw.schedule()));
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
  frame.setHeader(source.get<Header>("header"));
  frame.setPlaceholder({ kind: "loading", text: "Reading what was recorded." });
  void reload();
}

/** The name after `name`, around. */
function next<T extends object>(all: T, name: keyof T): keyof T {
  const names = Object.keys(all) as (keyof T)[];
  return names[(names.indexOf(name) + 1) % names.length] as keyof T;
}

export default defineWidget({ name: "online_softmax", version: 1, render });
