// The partials and their merges as a tree of buttons, leaves on top.

import { cssBackground, h, lookOf, s, type Theme } from "@sglab/core";
import type { Order, Plan } from "./merge";
import { type Box, layoutOf, NODE } from "./merge_layout";
import { type Base, errorText, isBad, number } from "./numbers";
import { nodeName } from "./steps";

const LEVEL = { most: 74, least: 62 };
const MAX_HEIGHT = 374; // of .sgs-tree-box, without its padding
const SCROLL_BAR = 16;

/** A partial or a merged one, as the page shows it. */
export interface Node {
  leaves: number[];
  lse: number;
  error: number;
  /** The reader changed what this leaf holds. */
  changed: boolean;
  empty: boolean;
  /** It exists at the moment that is shown. */
  ready: boolean;
}

export interface TreeShown {
  nodes: Node[];
  plan: Plan;
  splits: number;
  base: Base;
  order: Order;
  /** Nodes that no merge takes: by hand, these can be pressed. */
  open: number[];
  armed: number | undefined;
  selectedSplit: number | undefined;
}

export function treeView(
  shown: TreeShown,
  theme: Theme,
  width: number,
  room: number,
  press: (node: number) => void,
): HTMLElement {
  const rows = 1 + Math.max(...layoutOf(shown.plan, shown.splits, width).boxes.map(({ row }) => row));
  const fitting = Math.floor((room - NODE) / Math.max(1, rows - 1));
  const level = Math.max(LEVEL.least, Math.min(LEVEL.most, fitting));
  const height = (rows - 1) * level + NODE;
  const inner = height > MAX_HEIGHT ? width - SCROLL_BAR : width;
  const { boxes, link } = layoutOf(shown.plan, shown.splits, inner);
  const centre = (node: number) => {
    const { x, wide, row } = boxes[node] as Box;
    return { x, y: row * level, wide };
  };
  const links = s("svg", { width: inner, height, "aria-hidden": "true", class: "sgs-links" });
  shown.plan.forEach((taken, k) => {
    const ready = shown.nodes[shown.splits + k]?.ready;
    for (const node of taken) {
      const d = link(node, shown.splits + k, level);
      links.append(s("path", { d, class: ready ? "sgs-link" : "sgs-link sgs-pending" }));
    }
  });
  const buttons = shown.nodes.map((node, i) => {
    const { x, y, wide } = centre(i);
    const button = nodeButton(shown, node, i, wide, theme);
    button.style.left = `${x - wide / 2}px`;
    button.style.top = `${y}px`;
    button.style.width = `${wide}px`;
    button.style.height = `${NODE}px`;
    button.addEventListener("click", () => press(i));
    return button;
  });
  const box = h("div", { class: "sgs-tree" }, links, ...buttons);
  box.style.height = `${height}px`;
  return box;
}

function nodeButton(shown: TreeShown, node: Node, i: number, wide: number, theme: Theme): HTMLButtonElement {
  const leaf = i < shown.splits;
  const name = nodeName(node.leaves);
  const lse = number(shown.base === "2" ? node.lse * Math.LOG2E : node.lse);
  const isEmpty = leaf && node.empty;
  const bad = node.ready && isBad(node.error);
  const error = node.ready ? `error ${errorText(node.error)}` : "";
  const swatch = h("span", { class: "sgs-swatch", "aria-hidden": "true" });
  if (leaf) swatch.style.background = cssBackground(lookOf(i, theme.dark));
  const label = node.ready
    ? `${leaf ? "Partial" : "Merged"} ${name}: LSE ${lse}, ${error}`
    : `${leaf ? "Partial" : "Merge"} ${name}: not computed yet`;
  const selected = shown.selectedSplit !== undefined && leaf && shown.selectedSplit === i;
  const button = h(
    "button",
    {
      type: "button",
      class: "sgs-node",
      "data-node": i,
      "data-bad": bad,
      "data-narrow": wide < 44,
      "data-empty": isEmpty,
      "data-ready": node.ready ? "true" : "false",
      "data-armed": shown.armed === i,
      "data-open": shown.order === "hand" && shown.open.includes(i),
      "aria-pressed": selected || shown.armed === i ? "true" : "false",
      "aria-label": node.changed ? `${label}, changed by you` : label,
      title: label,
    },
    h(
      "span",
      { class: "sgs-name" },
      leaf ? swatch : undefined,
      name,
      node.changed ? " ✎" : "",
      bad ? " ▲" : "",
    ),
    wide >= 64 ? h("span", {}, node.ready ? (isEmpty ? `LSE ${lse}` : `LSE ${lse}`) : "…") : undefined,
    wide >= 84 && node.ready
      ? h("span", { class: "sgs-error" }, isEmpty && !bad ? "no keys" : error)
      : undefined,
  );
  return button;
}
