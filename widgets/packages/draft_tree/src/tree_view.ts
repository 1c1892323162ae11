// The tree: a box per node with its token, below it what the target says there, accepted edges thick.

import { cutText, format, h, s, type Tooltip, tokenText } from "@sglab/core";
import type { Pass } from "./data";
import { placeNodes } from "./layout";
import type { Standing } from "./steps";
import { probability } from "./words";

const BOX = { width: 74, height: 24 };
const LEAST_COLUMN = 92;
const ROW = { least: 50, most: 72 };
const EDGE = 8;
const TOP = 10;
const BORDERS = 2;

export interface TreeShown {
  pass: Pass;
  standing: Standing;
  selected: number | undefined;
  texts: Record<string, string>;
  width: number;
  height: number;
}

/** How a node stands: not built, waiting, kept, or refused by a comparison. */
export function stateOf(node: number, { built, walk }: Standing): "future" | "open" | "kept" | "refused" {
  if (node >= built) return "future";
  if (walk.length && node === 0) return "kept";
  const judged = walk.find(({ child }) => child === node);
  return judged ? (judged.matches ? "kept" : "refused") : "open";
}

/** Pixels of height that trees take where there is room. */
export function wantedTree(passes: readonly Pass[]): number {
  return TOP + ROW.most * Math.max(0, ...passes.map(({ nodes }) => placeNodes(nodes).rows)) + BORDERS;
}

export class TreeView {
  readonly element: HTMLElement;
  #svg = s("svg", { role: "img", "data-picture": true });
  #at = (_: number) => ({ x: 0, y: 0 });

  constructor(tooltip: Tooltip, press: (node: number) => void, describe: (node: number) => string) {
    this.element = h(
      "div",
      { class: "sdt-tree", tabindex: 0, role: "group", "aria-label": "Draft tree" },
      this.#svg,
    );
    const nodeAt = (target: EventTarget | null) => {
      const found = target instanceof Element ? target.closest<SVGElement>("[data-node]") : null;
      return found ? Number(found.dataset.node) : undefined;
    };
    this.#svg.addEventListener("click", (event) => {
      const node = nodeAt(event.target);
      if (node !== undefined) press(node);
    });
    this.#svg.addEventListener("pointermove", (event) => {
      const node = nodeAt(event.target);
      tooltip.show(node === undefined ? undefined : describe(node), event.clientX, event.clientY);
    });
    this.#svg.addEventListener("pointerleave", () => tooltip.hide());
  }

  draw(shown: TreeShown): void {
    const { pass, standing } = shown;
    const { places, rows, columns } = placeNodes(pass.nodes);
    const column = Math.min(
      150,
      Math.max(LEAST_COLUMN, (shown.width - 2 * EDGE - BOX.width) / Math.max(1, columns - 1)),
    );
    const width = 2 * EDGE + BOX.width + (columns - 1) * column;
    const row = Math.max(ROW.least, Math.min(ROW.most, Math.floor((shown.height - TOP) / rows)));
    const height = TOP + rows * row;
    const svg = this.#svg;
    svg.setAttribute("width", String(width));
    svg.setAttribute("height", String(height));
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute(
      "aria-label",
      `Draft tree of pass ${pass.number}: ${format.plural(pass.nodes.length, "node")}, ${format.plural(columns - 1, "level")} of drafts`,
    );
    this.element.style.height = `${Math.max(ROW.least * 2, shown.height)}px`;
    const x = (node: number) => EDGE + (places[node]?.column ?? 0) * column;
    const y = (node: number) => TOP + (places[node]?.row ?? 0) * row;
    svg.replaceChildren();
    pass.nodes.forEach((node, i) => {
      if (node.parent < 0) return;
      const from = x(node.parent) + BOX.width;
      const [y1, y2] = [y(node.parent) + BOX.height / 2, y(i) + BOX.height / 2];
      const middle = (from + x(i)) / 2;
      const d = `M${from},${y1} C${middle},${y1} ${middle},${y2} ${x(i)},${y2}`;
      svg.append(s("path", { d, class: "sdt-edge", "data-state": stateOf(i, standing) }));
    });
    pass.nodes.forEach((_, i) => {
      svg.append(this.#node(shown, i, x(i), y(i), column));
    });
    this.#at = (node) => ({ x: x(node), y: y(node) });
  }

  /** Scrolls to a node, in a tree that is larger than its room. */
  reveal(node: number): void {
    const { x, y } = this.#at(node);
    const box = this.element;
    if (x < box.scrollLeft || x + BOX.width > box.scrollLeft + box.clientWidth)
      box.scrollLeft = x - box.clientWidth / 2;
    if (y < box.scrollTop || y + ROW.least > box.scrollTop + box.clientHeight)
      box.scrollTop = y - box.clientHeight / 2;
  }

  #node(
    { pass, standing, selected, texts }: TreeShown,
    i: number,
    x: number,
    y: number,
    column: number,
  ): SVGGElement {
    const node = pass.nodes[i];
    const state = stateOf(i, standing);
    const { now } = standing;
    const looked = now !== undefined && (now.node === i || now.child === i);
    const sign = { kept: "✓ ", refused: "✗ ", open: "", future: "" }[state];
    const group = s("g", {
      class: "sdt-node",
      "data-node": i,
      "data-state": state,
      "data-selected": String(selected === i),
      "data-now": String(looked && now?.phase !== "verify"),
    });
    group.append(s("rect", { x, y, width: BOX.width, height: BOX.height, rx: 4 }));
    if (!node || state === "future") return group;
    const label = `${sign}${i} ${cutText(tokenText(node.token, texts), 5)}`;
    group.append(s("text", { x: x + 6, y: y + 16, class: "sdt-token" }, label));
    const most = Math.floor((column - 6) / 6.6);
    const below = standing.verified
      ? `→ ${cutText(tokenText(node.chosen, texts), Math.max(2, most - 2))}`
      : Number.isNaN(node.score)
        ? ""
        : `p ${probability(node.score)}`;
    if (below) group.append(s("text", { x: x + 4, y: y + BOX.height + 13, class: "sdt-says" }, below));
    return group;
  }
}
