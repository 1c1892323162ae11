// Acceptance over the run: a bar per pass, as high as the tokens that it gained.

import { format, h, s, type Tooltip } from "@sglab/core";
import type { Pass } from "./data";

const HEIGHT = 64;
const LEFT = 24;
const BOTTOM = 14;
const WIDEST = 26;

export class RunView {
  readonly element: HTMLElement;
  #svg = s("svg", { role: "img", "data-picture": true });
  #passes: Pass[] = [];

  constructor(tooltip: Tooltip, press: (pass: number) => void) {
    this.element = h("div", { class: "sdt-run" }, this.#svg);
    const at = (event: MouseEvent) => {
      const found = (event.target as Element).closest<SVGElement>("[data-pass]");
      return found ? Number(found.dataset.pass) : undefined;
    };
    this.#svg.addEventListener("click", (event) => {
      const pass = at(event);
      if (pass !== undefined) press(pass);
    });
    this.#svg.addEventListener("pointermove", (event) => {
      const pass = at(event);
      tooltip.show(pass === undefined ? undefined : this.#describe(pass), event.clientX, event.clientY);
    });
    this.#svg.addEventListener("pointerleave", () => tooltip.hide());
  }

  draw(passes: Pass[], shown: number, width: number): void {
    this.#passes = passes;
    const deepest = Math.max(
      1,
      ...passes.map(({ nodes }) => Math.max(...nodes.map(({ depth }) => depth)) + 1),
    );
    const step = Math.min(WIDEST, Math.max(2, (width - LEFT - 4) / passes.length));
    const y = (tokens: number) => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - 6) * tokens) / deepest;
    const whole = LEFT + step * passes.length + 4;
    const svg = this.#svg;
    svg.setAttribute("width", String(Math.max(whole, 60)));
    svg.setAttribute("height", String(HEIGHT));
    svg.setAttribute("viewBox", `0 0 ${Math.max(whole, 60)} ${HEIGHT}`);
    svg.setAttribute("aria-label", summary(passes));
    const parts: SVGElement[] = [];
    const level = (tokens: number) =>
      s("line", {
        x1: LEFT,
        x2: whole,
        y1: y(tokens),
        y2: y(tokens),
        class: "sdt-level",
        "data-one": String(tokens === 1),
        "pointer-events": "none",
      });
    if (deepest > 1) parts.push(level(deepest));
    for (const tokens of new Set([1, deepest]))
      parts.push(
        s("text", { x: LEFT - 4, y: y(tokens) + 4, "text-anchor": "end", class: "sdt-axis" }, String(tokens)),
      );
    passes.forEach((pass, i) => {
      const x = LEFT + i * step;
      const bar = Math.max(1, step - (step > 5 ? 2 : 0.5));
      const deep = Math.max(...pass.nodes.map(({ depth }) => depth)) + 1;
      const group = s("g", { class: "sdt-bar", "data-pass": i, "data-shown": String(i === shown) });
      group.append(
        s("rect", { x, y: y(deep), width: bar, height: y(0) - y(deep), class: "sdt-possible" }),
        s("rect", {
          x,
          y: y(pass.gained),
          width: bar,
          height: y(0) - y(pass.gained),
          class: "sdt-gained",
        }),
      );
      parts.push(group);
    });
    for (let i = 0; i < passes.length; i += Math.max(1, Math.ceil(34 / step)))
      parts.push(
        s("text", { x: LEFT + i * step, y: HEIGHT - 3, class: "sdt-axis" }, String(passes[i]?.number)),
      );
    svg.replaceChildren(...parts, level(1)); // over the bars, which all reach it
  }

  #describe(at: number): string | undefined {
    const pass = this.#passes[at];
    if (!pass) return undefined;
    return `pass ${pass.number}: ${format.plural(pass.gained, "token")}, ${pass.accepted} of ${format.plural(pass.nodes.length - 1, "draft")} kept`;
  }
}

/** "22 of 336 drafts kept (6.5 %) · 1.69 tokens per pass; plain decoding has 1". */
export function summary(passes: readonly Pass[]): string {
  const drafted = passes.reduce((sum, { nodes }) => sum + nodes.length - 1, 0);
  const accepted = passes.reduce((sum, pass) => sum + pass.accepted, 0);
  const gained = passes.reduce((sum, pass) => sum + pass.gained, 0);
  const mean = passes.length ? gained / passes.length : 0;
  const share = drafted ? accepted / drafted : 0;
  return `${format.count(accepted)} of ${format.plural(drafted, "draft")} kept (${format.percent(share)}) · ${mean.toFixed(2)} tokens per pass; plain decoding has 1`;
}
