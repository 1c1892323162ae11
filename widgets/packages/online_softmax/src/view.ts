// The view's parts, and drawing them for one moment.

import {
  type Disposer,
  type Frame,
  h,
  revealWithin,
  SvgPaint,
  s,
  Tabs,
  type Theme,
  uniqueId,
} from "@sglab/core";
import type { Recorded } from "./data";
import { conclusion, formulaNotes, splitDetails } from "./details";
import { historyView } from "./history_view";
import { mergeTable } from "./merge_table";
import { treeView } from "./merge_view";
import type { Model } from "./model";
import { top as topText } from "./numbers";
import { outputView } from "./output_view";
import { registersAt, tilesDone, tilesSeen } from "./registers";
import { registersView } from "./registers_view";
import { nodesOf, type Result, shareOf } from "./results";
import { drawScores, tokenAt } from "./scores_view";
import type { Moment } from "./steps";
import { stripsAt } from "./strips";

export interface Actions {
  goToTile(step: number): void;
  /** Does something that can be taken back. */
  act(run: () => void): void;
  press(node: number): void;
}

export interface View {
  draw(position: number, selectedSplit: number | undefined, theme: Theme, width: number): void;
}

const TREE_PADDING = 8;
const HINT = "Press a partial, or the ↓ key, to see it and to change what it holds.";

export function makeView(frame: Frame, disposer: Disposer, model: Model, actions: Actions): View {
  const defs = s("defs");
  const scores = s("svg", { class: "sgs-scores", role: "img" }, defs);
  const paint = new SvgPaint(defs, uniqueId("scores"));
  const registers = h("div", { class: "sgs-registers" });
  const history = h("div");
  const output = outputView();
  const tree = h("div", { class: "sgs-tree-box" });
  const result = h("div", { "aria-live": "polite" });
  const undo = button("undo", () => actions.act(() => model.undo()));
  const reset = button("start over", () => actions.act(() => model.choose({ order: "hand" })));
  const byHand = h(
    "span",
    { class: "sgs-hand", "data-no-picture": true },
    "Press two partials to merge them.",
    undo,
    reset,
  );
  const heading = (text: string, ...more: HTMLElement[]) =>
    h("div", { class: "sg-heading sgs-heading" }, text, ...more);
  const scoresTitle = heading("");
  const tabs = new Tabs(
    [
      {
        id: "tiles",
        label: "Tile by tile",
        panel: h("div", {}, history, heading("O, one cell per dimension"), output.root),
      },
      { id: "merges", label: "Partials and merges", panel: h("div", {}, heading("", byHand), result, tree) },
    ],
    "Tiles, or what is made of them",
    disposer,
  );
  frame.view.append(scoresTitle, scores, registers, tabs.element);
  hearPointer(scores, frame, model, actions);
  let wasMerging = false;
  let shownDetails = "";
  let shownPosition = -1;
  let shownTree = { state: "", room: 0 };

  function drawTop(
    run: Recorded,
    moment: Moment,
    selectedSplit: number | undefined,
    theme: Theme,
    width: number,
  ): void {
    const { formula, base } = model.choices;
    const now = registersAt(run, formula, moment);
    const done = tilesDone(run, moment);
    const tops = Array.from({ length: done }, (_, step) => run.state(formula, step).top);
    if (now && now.done >= 2 && now.done < 4) tops.push(now.top);
    const shown = {
      recorded: run,
      base,
      seen: tilesSeen(run, moment),
      current: moment.kind === "tile" ? moment.step : undefined,
      tops: formula === "unshifted" ? [] : tops,
      selectedSplit,
    };
    const line = formula === "unshifted" ? "" : " · line: running maximum m, restarted in every split";
    scoresTitle.textContent = `Scores of the keys, ${base === "2" ? "base 2" : "natural"}, in tiles${line}`;
    drawScores(scores, shown, paint, theme, width);
    registers.replaceChildren(registersView(run, formula, base, now, () => resting(model, run, moment)));
    history.replaceChildren(historyView({ recorded: run, formula, base, done }, width));
    output.paint(stripsAt(run, model.results, moment, now), theme, width);
  }

  function drawTree(
    run: Recorded,
    position: number,
    selectedSplit: number | undefined,
    theme: Theme,
    width: number,
  ): void {
    const ready = model.results.map((_, node) => model.endOf(node) <= position);
    const state = JSON.stringify([model.turn, ready, model.armed, selectedSplit, theme.dark, width]);
    if (state !== shownTree.state) {
      byHand.hidden = model.choices.order !== "hand";
      undo.disabled = model.plan.length === 0;
      result.replaceChildren(
        conclusion(run, model.choices.base, model.final, model.kernelError, model.held.size > 0),
      );
    }
    const room = roomBelow(tree);
    if (state === shownTree.state && room === shownTree.room) return;
    shownTree = { state, room };
    const focused = (tree.getRootNode() as Document | ShadowRoot).activeElement;
    const node = focused && tree.contains(focused) ? (focused as HTMLElement).dataset.node : undefined;
    const shown = {
      nodes: nodesOf(model.results, model.held, (each) => ready[each] === true),
      plan: model.plan,
      splits: run.splits,
      base: model.choices.base,
      order: model.choices.order,
      open: model.open,
      armed: model.armed,
      selectedSplit,
    };
    const drawn = treeView(shown, theme, width, room, actions.press);
    tree.replaceChildren(drawn);
    if (node !== undefined)
      drawn.querySelector<HTMLElement>(`[data-node="${node}"]`)?.focus({ preventScroll: true });
  }

  /** What is left of the view for what begins with `part`; as much as it likes while it is out of sight. */
  function roomBelow(part: HTMLElement): number {
    if (part.offsetParent === null) return Number.POSITIVE_INFINITY;
    const above = part.getBoundingClientRect().top - frame.view.getBoundingClientRect().top;
    return frame.room() - above - frame.view.scrollTop - TREE_PADDING;
  }

  /** Only when something in it has changed: a list that is open must stay open while the run plays. */
  function drawDetails(run: Recorded, split: number | undefined): void {
    const result = split === undefined ? undefined : model.results[split];
    const key = JSON.stringify([model.choices, split, [...model.held], run.question, model.plan]);
    if (key === shownDetails) return;
    shownDetails = key;
    const hadFocus = frame.details.contains(
      (frame.root.getRootNode() as Document | ShadowRoot).activeElement,
    );
    const parts = formulaNotes(model.choices);
    if (split === undefined || !result) parts.push(h("p", { class: "sgs-note" }, HINT));
    else {
      const share = model.whole ? shareOf(result.truth, model.whole) : Number.NaN;
      const held = model.held.get(split) ?? "kernel";
      parts.push(
        splitDetails(run, model.choices.formula, split, result, share, held, (what) =>
          actions.act(() => model.hold(split, what)),
        ),
      );
    }
    frame.details.replaceChildren(...parts);
    if (hadFocus) frame.details.querySelector("select")?.focus({ preventScroll: true });
  }

  return {
    draw(position, selectedSplit, theme, width) {
      const { recorded, steps } = model;
      if (!recorded || !steps) return;
      const moment = steps.at(position);
      const merging = moment.kind === "merge" || model.choices.order === "hand";
      if (merging !== wasMerging) tabs.open(merging ? "merges" : "tiles"); // until then, as the reader likes
      if (wasMerging && !merging) frame.view.scrollTop = 0; // the last merge was scrolled to: the tile's keys are above
      wasMerging = merging;
      drawTop(recorded, moment, selectedSplit, theme, width);
      const { room } = shownTree;
      drawTree(recorded, position, selectedSplit, theme, width);
      // a merge that was just made is in sight, also when a message takes its room
      if (moment.kind === "merge" && (position !== shownPosition || room !== shownTree.room))
        revealWithin(frame.view, tree.querySelector(`[data-node="${recorded.splits + moment.index}"]`));
      shownPosition = position;
      drawDetails(recorded, selectedSplit);
    },
  };
}

function button(text: string, run: () => void): HTMLButtonElement {
  const made = h("button", { type: "button", class: "sg-button" }, text);
  made.addEventListener("click", run);
  return made;
}

/** What replaces the equations while no tile is taken in. */
function resting({ results, plan, choices }: Model, run: Recorded, moment: Moment): HTMLElement {
  if (moment.kind === "merge")
    return mergeTable(results as Result[], plan, run.splits, moment.index, choices.base);
  const text =
    moment.kind === "partial"
      ? `Split s${moment.split} got no keys: no CTA writes its partial.`
      : "Nothing has arrived. Step with → or press play.";
  return h("p", { class: "sgs-note" }, text);
}

/** Over the scores, hovering shows the key and pressing goes to the end of its tile. */
function hearPointer(scores: SVGSVGElement, frame: Frame, model: Model, actions: Actions): void {
  const under = (event: MouseEvent) => {
    const { recorded } = model;
    if (!recorded) return undefined;
    const token = tokenAt(recorded, frame.view.clientWidth, event.offsetX);
    return { recorded, token, step: recorded.tiles.findIndex((tile) => token < tile.end) };
  };
  scores.addEventListener("click", (event) => {
    const found = under(event);
    if (found) actions.goToTile(found.step);
  });
  scores.addEventListener("pointermove", (event) => {
    const found = under(event);
    if (!found) return;
    const { recorded, token, step } = found;
    const score = topText(recorded.scores[token] as number, model.choices.base);
    const text = `key ${token}, split s${recorded.tiles[step]?.split}, tile ${step + 1}\nscore ${score}`;
    frame.tooltip.show(text, event.clientX, event.clientY);
  });
  scores.addEventListener("pointerleave", () => frame.tooltip.hide());
}
