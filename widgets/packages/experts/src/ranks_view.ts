// Experts on ranks, before and after EPLB: a bar per rank, stacked by expert; copies share an expert's load.

import { format, h, lookOf, SvgPaint, s, type Tooltip, uniqueId } from "@sglab/core";
import { imbalance, type Recorded, type Spread } from "./data";

const LEFT = 56;
const RIGHT = 44;
const ROW = 28;
const BAR = 20;
const LABEL_FROM = 26;

export interface Segment {
  expert: number;
  /** Choices that this copy computes. */
  load: number;
  /** Copies of the expert. */
  copies: number;
}

/** Of each rank what it holds, in order. */
export function segmentsOf(spread: Spread, load: readonly number[]): Segment[][] {
  const ranks = spread.rankLoad.length;
  const per = spread.physical.length / ranks;
  const copies = new Map<number, number>();
  for (const expert of spread.physical) copies.set(expert, (copies.get(expert) ?? 0) + 1);
  return Array.from({ length: ranks }, (_, rank) =>
    spread.physical.slice(rank * per, (rank + 1) * per).map((expert) => {
      const many = copies.get(expert) ?? 1;
      return { expert, load: (load[expert] ?? 0) / many, copies: many };
    }),
  );
}

export class RanksView {
  readonly element: HTMLElement;
  #parts = (["even", "eplb"] as const).map((name) => ({
    name,
    title: h("div", { class: "sex-heading" }),
    svg: s("svg", { role: "img", "data-picture": true }),
  }));

  constructor(
    private tooltip: Tooltip,
    press: (expert: number) => void,
  ) {
    const note = h(
      "p",
      { class: "sg-note" },
      "Choices of all passes that each rank computes. EPLB gives the fullest experts copies (×2), which take turns, and packs ranks evenly.",
    );
    this.element = h(
      "div",
      { class: "sex-ranks" },
      note,
      ...this.#parts.flatMap(({ title, svg }) => [title, svg]),
    );
    for (const { svg } of this.#parts) {
      svg.addEventListener("click", (event) => {
        const found = (event.target as Element).closest<SVGElement>("[data-expert]");
        if (found) press(Number(found.dataset.expert));
      });
      svg.addEventListener("pointermove", (event) => {
        const found = (event.target as Element).closest<SVGElement>("[data-told]");
        this.tooltip.show(found?.dataset.told, event.clientX, event.clientY);
      });
      svg.addEventListener("pointerleave", () => this.tooltip.hide());
    }
  }

  draw(recorded: Recorded, selected: number | undefined, width: number, dark: boolean): void {
    const most = Math.max(1, ...recorded.even.rankLoad, ...recorded.eplb.rankLoad);
    for (const { name, title, svg } of this.#parts) {
      const spread = recorded[name];
      const what =
        name === "even"
          ? `In order, ${format.plural(spread.physical.length, "expert")}`
          : `EPLB, ${format.plural(recorded.shown.redundant, "copy", "copies")} more`;
      title.textContent = `${what}: the fullest rank has ${imbalance(spread.rankLoad).toFixed(2)} × the mean`;
      drawRanks(svg, spread, recorded.load, { most, width, dark, selected, label: title.textContent });
    }
  }
}

interface Look {
  most: number;
  width: number;
  dark: boolean;
  selected: number | undefined;
  label: string;
}

function drawRanks(svg: SVGSVGElement, spread: Spread, load: readonly number[], look: Look): void {
  const { most, width, dark, selected } = look;
  const rows = segmentsOf(spread, load);
  const height = rows.length * ROW + 2;
  svg.setAttribute("width", String(width));
  svg.setAttribute("height", String(height));
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("aria-label", look.label);
  const defs = s("defs");
  const paint = new SvgPaint(defs, uniqueId("ranks"));
  const scale = (width - LEFT - RIGHT) / most;
  const parts: SVGElement[] = [defs];
  rows.forEach((segments, rank) => {
    const y = rank * ROW + 4;
    parts.push(
      s("text", { x: LEFT - 6, y: y + 15, "text-anchor": "end", class: "sex-axis" }, `rank ${rank}`),
    );
    let x = LEFT;
    for (const { expert, load: share, copies } of segments) {
      const wide = share * scale;
      const shown = lookOf(expert, dark);
      const told = `expert ${expert} on rank ${rank}: ${share.toFixed(copies > 1 ? 1 : 0)} ${share === 1 && copies === 1 ? "choice" : "choices"}${copies > 1 ? `, one of ${copies} copies` : ""}`;
      const group = s("g", {
        class: "sex-segment",
        "data-expert": expert,
        "data-told": told,
        "data-selected": String(expert === selected),
      });
      group.append(s("rect", { x, y, width: Math.max(0, wide - 1), height: BAR, fill: paint.fill(shown) }));
      if (wide >= LABEL_FROM)
        group.append(
          s(
            "text",
            {
              x: x + wide / 2,
              y: y + 14,
              "text-anchor": "middle",
              fill: shown.ink,
              class: "sex-name",
              // a hatch would go through it
              ...(shown.hatch === "none"
                ? {}
                : { stroke: shown.fill, "stroke-width": 4, "paint-order": "stroke" }),
            },
            copies > 1 && wide >= 2 * LABEL_FROM ? `e${expert} ×${copies}` : `e${expert}`,
          ),
        );
      parts.push(group);
      x += wide;
    }
    const total = spread.rankLoad[rank] ?? 0;
    parts.push(
      s("text", { x: x + 5, y: y + 15, class: "sex-axis" }, format.count(Math.round(total * 10) / 10)),
    );
  });
  svg.replaceChildren(...parts);
}
