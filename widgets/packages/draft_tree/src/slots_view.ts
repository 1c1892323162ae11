// KV slots of the tree before and after compaction: kept rows follow the prefix, the others are given back.

import { cutText, format, h, s, tokenText } from "@sglab/core";
import type { Pass } from "./data";
import type { Standing } from "./steps";

const CELL = { width: 56, height: 36 };
const LEFT = 76;
const GAP = 30;
const TOP = 2;

export class SlotsView {
  readonly element: HTMLElement;
  #svg = s("svg", { role: "img", "data-picture": true });

  constructor(press: (node: number) => void) {
    this.element = h(
      "div",
      { class: "sdt-slots", tabindex: 0, role: "group", "aria-label": "KV slots" },
      this.#svg,
    );
    this.#svg.addEventListener("click", (event) => {
      const cell = (event.target as Element).closest<SVGElement>("[data-node]");
      if (cell) press(Number(cell.dataset.node));
    });
  }

  draw(pass: Pass, standing: Standing, selected: number | undefined, texts: Record<string, string>): void {
    const count = pass.nodes.length;
    const width = LEFT + count * CELL.width + 4;
    const lower = TOP + CELL.height + GAP;
    const height = lower + CELL.height + 4;
    const svg = this.#svg;
    svg.setAttribute("width", String(width));
    svg.setAttribute("height", String(height));
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("aria-label", describe(pass));
    const x = (place: number) => LEFT + place * CELL.width;
    const parts: SVGElement[] = [
      s("text", { x: 0, y: TOP + 22, class: "sdt-label" }, "written"),
      s("text", { x: 0, y: lower + 22, class: "sdt-label" }, "afterwards"),
    ];
    const kept = pass.nodes.flatMap((node, i) => (node.kept >= 0 ? [{ node, i }] : []));
    pass.nodes.forEach((node, i) => {
      const state =
        standing.built <= i ? "future" : standing.ended ? (node.kept >= 0 ? "kept" : "lost") : "open";
      const label = state === "future" ? "" : `${i} ${cutText(tokenText(node.token, texts), 3)}`;
      parts.push(cell(x(i), TOP, state, String(node.slot), label, i, selected));
    });
    pass.nodes.forEach(({ slot }, place) => {
      const mine = kept.find(({ node }) => node.kept === place);
      const there = mine && standing.ended && (mine.node.movedTo < 0 || standing.moved.includes(mine.i));
      const state = there ? "kept" : standing.compacted ? "lost" : "open";
      const label = there
        ? `${mine.i} ${cutText(tokenText(mine.node.token, texts), 3)}`
        : standing.compacted
          ? "unused"
          : "";
      parts.push(cell(x(place), lower, state, String(slot), label, mine?.i, selected));
    });
    for (const { node, i } of kept) {
      if (!standing.ended) break;
      const moves = node.movedTo >= 0;
      if (moves && !standing.moved.includes(i)) continue;
      const [from, to] = [x(i) + CELL.width / 2, x(node.kept) + CELL.width / 2];
      const [y1, y2] = [TOP + CELL.height, lower];
      const d = `M${from},${y1} L${to},${y2 - 5}`;
      parts.push(s("path", { d, class: "sdt-move", "data-moves": String(moves) }));
      parts.push(
        s("path", { d: `M${to - 4},${y2 - 7} L${to},${y2} L${to + 4},${y2 - 7} Z`, class: "sdt-head" }),
      );
    }
    svg.replaceChildren(...parts);
  }

  /** Scrolls to a slot, counted from the tree's first. */
  reveal(place: number): void {
    const box = this.element;
    const left = LEFT + place * CELL.width;
    if (left < box.scrollLeft || left + CELL.width > box.scrollLeft + box.clientWidth)
      box.scrollLeft = place ? left - (box.clientWidth - CELL.width) / 2 : 0;
  }
}

function cell(
  x: number,
  y: number,
  state: string,
  slot: string,
  label: string,
  node: number | undefined,
  selected: number | undefined,
): SVGGElement {
  const chosen = String(node !== undefined && node === selected);
  return s(
    "g",
    { class: "sdt-slot", "data-state": state, "data-node": node, "data-selected": chosen },
    s("rect", { x: x + 1, y: y + 1, width: CELL.width - 2, height: CELL.height - 2, rx: 3 }),
    s("text", { x: x + CELL.width / 2, y: y + 15, "text-anchor": "middle", class: "sdt-number" }, slot),
    ...(label ? [s("text", { x: x + CELL.width / 2, y: y + 29, "text-anchor": "middle" }, label)] : []),
  );
}

function describe(pass: Pass): string {
  const moves = pass.nodes.filter(({ movedTo }) => movedTo >= 0).length;
  return `KV slots of pass ${pass.number}: ${format.plural(pass.accepted + 1, "row")} kept, ${moves} of them moved`;
}
