// Load per expert: of this pass so far, and of the whole run.

import { format, h, s, type Tooltip } from "@sglab/core";
import { imbalance, loadOf, type Recorded } from "./data";
import type { Standing } from "./steps";

const LEFT = 34;
const RIGHT = 6;
const CHART = { least: 118, most: 260 };
const HEADINGS = 82; // px: both titles, of two lines
const TOP = 16;
const AXIS = 16;
const LABELLED = 26;
const NAMED = 34; // px between names where not every expert has one
const NUMBER = 11; // px: how high a bar's number is

export class LoadView {
  readonly element: HTMLElement;
  #pass = s("svg", { role: "img", "data-picture": true });
  #run = s("svg", { role: "img", "data-picture": true });
  #passTitle = h("div", { class: "sex-heading" });
  #runTitle = h("div", { class: "sex-heading" });
  #loads: { pass: number[]; run: number[] } = { pass: [], run: [] };

  constructor(tooltip: Tooltip, press: (expert: number) => void) {
    this.element = h("div", { class: "sex-load" }, this.#passTitle, this.#pass, this.#runTitle, this.#run);
    for (const [svg, whose] of [
      [this.#pass, "pass"],
      [this.#run, "run"],
    ] as const) {
      const expertAt = (event: MouseEvent) => {
        const found = (event.target as Element).closest<SVGElement>("[data-expert]");
        return found ? Number(found.dataset.expert) : undefined;
      };
      svg.addEventListener("click", (event) => {
        const expert = expertAt(event);
        if (expert !== undefined) press(expert);
      });
      svg.addEventListener("pointermove", (event) => {
        const expert = expertAt(event);
        const load = this.#loads[whose];
        const text =
          expert === undefined
            ? undefined
            : `expert ${expert}: ${format.plural(load[expert] ?? 0, "token")} of this ${whose}`;
        tooltip.show(text, event.clientX, event.clientY);
      });
      svg.addEventListener("pointerleave", () => tooltip.hide());
    }
  }

  /** `room`: px of height for both charts and their titles. */
  draw(
    recorded: Recorded,
    standing: Standing,
    expert: number | undefined,
    width: number,
    room: number,
  ): void {
    const height = Math.max(CHART.least, Math.min(CHART.most, Math.floor((room - HEADINGS) / 2)));
    const pass = loadOf(recorded, standing.routed);
    const passes = recorded.passes.length;
    this.#loads = { pass, run: recorded.load };
    this.#passTitle.textContent = `This pass, ${standing.routed} of ${format.plural(recorded.tokens.length, "token")}${standing.routed ? `: ${told(pass)}` : " routed"}`;
    this.#runTitle.textContent = `${passes === 1 ? "The only pass" : `All ${format.count(passes)} passes`}: ${told(recorded.load)}`;
    bars(this.#pass, pass, recorded, expert, width, height, "Tokens per expert in this pass");
    bars(this.#run, recorded.load, recorded, expert, width, height, "Tokens per expert in the whole run");
  }
}

/** "the fullest has 1.51 × the mean". */
function told(load: readonly number[]): string {
  return `the fullest has ${imbalance(load).toFixed(2)} × the mean`;
}

function bars(
  svg: SVGSVGElement,
  load: readonly number[],
  { rule }: Recorded,
  selected: number | undefined,
  width: number,
  height: number,
  label: string,
): void {
  const most = Math.max(1, ...load);
  const step = (width - LEFT - RIGHT) / load.length;
  const every = step >= LABELLED ? 1 : 4 * Math.ceil(NAMED / 4 / step);
  const bottom = height - AXIS;
  const y = (value: number) => bottom - ((bottom - TOP) * value) / most;
  const mean = load.reduce((sum, each) => sum + each, 0) / load.length;
  svg.setAttribute("width", String(width));
  svg.setAttribute("height", String(height));
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("aria-label", `${label}: ${load.map((each, i) => `e${i} ${each}`).join(", ")}`);
  const parts: SVGElement[] = [
    s("text", { x: LEFT - 5, y: y(most) + 4, "text-anchor": "end", class: "sex-axis" }, String(most)),
    s("text", { x: LEFT - 5, y: bottom + 1, "text-anchor": "end", class: "sex-axis" }, "0"),
    s("line", { x1: LEFT, x2: width - RIGHT, y1: bottom, y2: bottom, class: "sex-grid" }),
  ];
  const counts: SVGElement[] = [];
  load.forEach((value, expert) => {
    const x = LEFT + expert * step;
    const bar = Math.max(1, step - Math.min(4, step * 0.2));
    const group = s("g", {
      class: "sex-bar",
      "data-expert": expert,
      "data-selected": String(expert === selected),
    });
    group.append(
      s("rect", { x, y: TOP, width: step, height: bottom - TOP, class: "sex-hit" }),
      s("rect", { x, y: y(value), width: bar, height: bottom - y(value), class: "sex-count" }),
    );
    if (step >= LABELLED) {
      const middle = x + bar / 2;
      const above = y(value) - 3;
      const crossed = y(mean) > above - NUMBER && y(mean) < above + 2;
      const inside = crossed && bottom - y(value) > NUMBER + 3;
      counts.push(
        s(
          "text",
          {
            x: middle,
            y: inside ? y(value) + NUMBER : crossed ? y(mean) - 3 : above,
            "text-anchor": "middle",
            class: `sex-axis sex-number${inside ? " sex-inside" : ""}`,
          },
          String(value),
        ),
      );
    }
    if (expert % every === 0)
      parts.push(
        s(
          "text",
          { x: x + bar / 2, y: height - 3, "text-anchor": "middle", class: "sex-axis" },
          `e${expert}`,
        ),
      );
    parts.push(group);
    if (
      expert > 0 &&
      Math.floor((expert * rule.groups) / rule.experts) !==
        Math.floor(((expert - 1) * rule.groups) / rule.experts)
    )
      parts.push(s("line", { x1: x - 1, x2: x - 1, y1: TOP, y2: bottom + 4, class: "sex-edge" }));
  });
  const line = s("line", { x1: LEFT, x2: width - RIGHT, y1: y(mean), y2: y(mean), class: "sex-mean" });
  svg.replaceChildren(...parts, line, ...counts);
}
