// Error against dense attention as more keys are kept: a line per rule, logarithmic; exact choices lie on the floor.

import { cssBackground, type Disposer, format, h, type Look, OKABE_ITO, s } from "@sglab/core";
import type { Choice, Read } from "./data";

const LEFT = 56;
const RIGHT = 10;
const TOP = 8;
const BOTTOM = 30;
const FLOOR = 1e-4;
const CEILING = 3;
const DASHES = ["", "6 3", "2 3", "9 3 2 3", "4 2", "1 2"];

/** A rule's colour; lines also differ in their dashes, points in form. */
export function ruleLook(rule: number): Look {
  const fills = [OKABE_ITO[4], OKABE_ITO[5], OKABE_ITO[2], OKABE_ITO[0], OKABE_ITO[6], "#999999"] as const;
  return { fill: fills[rule % fills.length] as string, hatch: "none", ink: "#000000" };
}

export class Chart {
  readonly element = h("div", { class: "ssp-chart" });

  constructor(disposer: Disposer, press: (rule: number, step: number) => void) {
    disposer.listen(this.element, "click", (event) => {
      const point = (event.target as Element).closest<SVGElement>("[data-step]");
      if (point) press(Number(point.dataset.rule), Number(point.dataset.step));
    });
  }

  draw(read: Read, rule: number, step: number, width: number, height: number): void {
    const most = Math.max(...read.rules.flatMap((each) => each.keys));
    const x = (keys: number) => LEFT + (keys / most) * (width - LEFT - RIGHT);
    const y = (error: number) => {
      const held = Math.min(CEILING, Math.max(FLOOR, error));
      const share = Math.log(held / FLOOR) / Math.log(CEILING / FLOOR);
      return height - BOTTOM - share * (height - BOTTOM - TOP);
    };
    const svg = s("svg", {
      width,
      height: height,
      role: "img",
      "data-picture": "",
      "aria-label": "Error of the layer's output against keys per query, a line per rule",
    });
    for (const [value, text] of [
      [1, "100 %"],
      [0.1, "10 %"],
      [0.01, "1 %"],
      [0.001, "0.1 %"],
      [FLOOR, "≤ 0.01 %"],
    ] as const)
      svg.append(
        s("line", { x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value), class: "ssp-grid" }),
        s("text", { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end", class: "ssp-axis" }, text),
      );
    for (let keys = 0, every = tickEvery(most); keys <= most; keys += every)
      svg.append(
        s(
          "text",
          { x: x(keys), y: height - 16, "text-anchor": "middle", class: "ssp-axis" },
          format.count(keys),
        ),
      );
    svg.append(
      s(
        "text",
        { x: (LEFT + width) / 2, y: height - 3, "text-anchor": "middle", class: "ssp-axis" },
        "keys per query, mean",
      ),
    );
    const others = [...read.rules.keys()].filter((i) => i !== rule);
    for (const i of [...others, rule]) {
      const each = read.rules[i] as Choice; // the one that is looked at lies over the others
      const points = each.keys.map((keys, at) => [x(keys), y(each.error[at] as number)] as const);
      svg.append(
        s("polyline", {
          points: points.map((point) => point.join(",")).join(" "),
          class: "ssp-line",
          "data-now": String(i === rule),
          stroke: ruleLook(i).fill,
          "stroke-dasharray": DASHES[i % DASHES.length] as string,
        }),
      );
      points.forEach(([cx, cy], at) => {
        const now = i === rule && at === step;
        const title = `${each.title}: ${(each.keys[at] as number).toFixed(1)} keys, error ${percent(each.error[at] as number)}`;
        svg.append(
          s(
            "circle",
            {
              cx,
              cy,
              r: now ? 6 : 3.5,
              fill: ruleLook(i).fill,
              class: "ssp-point",
              "data-now": String(now),
              "data-rule": i,
              "data-step": at,
            },
            s("title", {}, title),
          ),
        );
      });
    }
    this.element.replaceChildren(svg);
  }
}

/** A round number between ticks, of which there are at most six. */
export function tickEvery(most: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, most / 5)));
  return [1, 2, 5, 10].map((each) => each * power).find((every) => most / every <= 5) ?? 10 * power;
}

/** The rules with their colours, pressed to look at one. */
export function ruleList(
  read: Read,
  rule: number,
  step: number,
  choose: (rule: number) => void,
): HTMLElement {
  const heads = ["rule", "keys", "mass", "error"];
  const lines = read.rules.map((each, i) => {
    const swatch = h("i", { class: "sg-swatch", "aria-hidden": "true" });
    swatch.style.background = cssBackground(ruleLook(i));
    const button = h(
      "button",
      { type: "button", class: "ssp-rule", "aria-pressed": String(i === rule), title: each.about },
      swatch,
      each.title,
    );
    button.addEventListener("click", () => choose(i));
    return h(
      "tr",
      { "data-rule": each.name, "data-now": String(i === rule) },
      h("td", {}, button),
      h("td", {}, (each.keys[step] as number).toFixed(1)),
      h("td", {}, format.percent(each.mass[step] as number)),
      h("td", {}, percent(each.error[step] as number)),
    );
  });
  return h(
    "table",
    { class: "ssp-rules", "aria-label": "Rules at this budget" },
    h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, ...lines),
  );
}

/** Small errors keep their first digits. */
export function percent(share: number): string {
  if (share < 1e-6) return "0 %";
  return share < 0.001 ? `${(100 * share).toPrecision(1)} %` : format.percent(share);
}
