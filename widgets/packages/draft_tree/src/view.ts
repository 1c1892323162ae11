// The picture: the tree beside its mask and arrays, the slots below, and the run.

import { type Disposer, type Frame, format, h, Tabs, type Theme } from "@sglab/core";
import { ArraysView } from "./arrays_view";
import type { Pass, Recorded } from "./data";
import { nodeDetails, nodeFacts, passFacts } from "./details";
import { MaskView, wantedMask } from "./mask_view";
import { RunView, summary } from "./run_view";
import { SlotsView } from "./slots_view";
import type { Moment, Standing, Steps } from "./steps";
import { TreeView, wantedTree } from "./tree_view";

const BESIDE = 284; // px of the view beside the tree: headings, slots, the run
const LEAST = 215; // a tree of eight nodes and its mask
const MOST = 420;
const TABS = 34;
const MASK_LOWER = 22; // px by which the mask ends below the tree
const TWO_COLUMNS = 590; // px of the view

export interface Shown {
  recorded: Recorded;
  steps: Steps;
  standing: Standing;
  selected: number | undefined;
}

export interface Actions {
  node(node: number): void;
  pass(pass: number): void;
}

export function makeView(
  frame: Frame,
  disposer: Disposer,
  theme: () => Theme,
  actions: Actions,
): { draw(shown: Shown): void } {
  let last: Shown | undefined;
  let revealed: { now: Moment | undefined; selected: number | undefined; room: string } | undefined;
  const facts = (node: number) => {
    const pass = last?.recorded.passes[last.standing.pass];
    if (!last || !pass) return "";
    return nodeFacts(last.recorded, pass, last.standing, node)
      .map(([term, text]) => `${term}  ${text}`)
      .join("\n");
  };
  const tree = new TreeView(frame.tooltip, actions.node, facts);
  const mask = new MaskView(theme, frame.tooltip, disposer, actions.node);
  const arrays = new ArraysView(actions.node);
  const slots = new SlotsView(actions.node);
  const run = new RunView(frame.tooltip, actions.pass);
  const tabs = new Tabs(
    [
      { id: "mask", label: "Mask", panel: h("div", {}, mask.grid.element) },
      { id: "arrays", label: "Arrays", panel: arrays.element },
    ],
    "How kernels see the tree",
    disposer,
    () => {
      revealed = undefined; // what comes into sight shows what was meanwhile looked at
      if (last) draw(last);
    },
  );
  const heading = (text: string) => h("div", { class: "sdt-heading" }, text);
  const treeTitle = heading("");
  const runTitle = heading("");
  const left = h("div", {}, treeTitle, tree.element);
  frame.view.append(
    h("div", { class: "sdt-upper" }, left, tabs.element),
    heading("KV slots of the tree"),
    slots.element,
    runTitle,
    run.element,
  );

  function draw(shown: Shown): void {
    last = shown;
    const { recorded, standing, selected } = shown;
    const pass = recorded.passes[standing.pass];
    if (!pass) return;
    const width = frame.view.clientWidth;
    const height = Math.max(LEAST, Math.min(MOST, wanted(recorded), frame.room() - BESIDE));
    const share = width >= TWO_COLUMNS ? 0.6 : 1;
    treeTitle.textContent = `Tree of pass ${pass.number}, after ${format.plural(pass.prefix, "token")}`;
    tree.draw({ pass, standing, selected, texts: recorded.texts, width: width * share - 24, height });
    arrays.element.style.maxHeight = `${height - TABS + MASK_LOWER}px`;
    mask.draw({ pass, standing, selected, height: height - TABS + MASK_LOWER });
    arrays.draw(pass, standing, selected, recorded.texts);
    slots.draw(pass, standing, selected, recorded.texts);
    runTitle.textContent = `Tokens gained by each pass: ${summary(recorded.passes)}`;
    run.draw(recorded.passes, standing.pass, width);
    const looked = standing.now && standing.now.phase !== "verify" ? standing.now : undefined;
    const node = selected ?? Math.max(0, looked && looked.child >= 0 ? looked.child : (looked?.node ?? 0));
    reveal(shown, pass, node);
    frame.details.replaceChildren(
      passFacts(recorded, pass, standing),
      ...nodeDetails(recorded, pass, standing, node),
    );
  }

  /** Once for every step, choice and size: a reader may scroll in between. */
  function reveal({ standing, selected }: Shown, pass: Pass, node: number): void {
    const { now } = standing;
    const room = `${tree.element.clientWidth} ${tree.element.clientHeight}`;
    const before = revealed;
    if (before && before.now === now && before.selected === selected && before.room === room) return;
    const stepped = before?.now !== now;
    const chosen = selected !== undefined && (!stepped || before?.selected !== selected);
    revealed = { now, selected, room };
    if (!chosen && now && (now.phase === "verify" || now.node < 0)) return;
    const at = chosen || !now ? node : now.child >= 0 ? now.child : now.node;
    tree.reveal(at);
    mask.reveal(at, !chosen && now?.phase === "mask");
    arrays.reveal(at);
    slots.reveal(!chosen && now?.phase === "compact" ? Math.max(0, pass.nodes[at]?.kept ?? 0) : at);
  }

  return { draw };
}

/** Of all passes, so that a step to another one leaves everything in its place. */
function wanted({ passes }: Recorded): number {
  return Math.max(wantedTree(passes), wantedMask(passes) + TABS - MASK_LOWER);
}
