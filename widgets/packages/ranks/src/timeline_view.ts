// A row per rank: what it computes, how long it waits for the others, and how long bytes move.

import { format, h, SvgPaint, s, type Tooltip, uniqueId } from "@sglab/core";
import { endOf, metAt, type Recorded, spanOf } from "./data";
import { KIND_LOOKS } from "./looks";
import type { Joint } from "./protocol";
import { micros, NAMES, shortName, wrapped } from "./words";

const LEFT = 52;
const RIGHT = 10;
const ROW = 34;
const BAR = 24;
const AXIS = 20;
const SCROLLBAR = 12;
const LINE = 13; // of a collective's name, which may take two
const LEAST = 1.5;
const TICK_LABEL = 46;
const CELL = 56;

export type Axis = "time" | "order";

export interface TimelineShown {
  recorded: Recorded;
  /** Collectives that have run. */
  position: number;
  axis: Axis;
  width: number;
}

export class TimelineView {
  readonly element: HTMLElement;
  #svg = s("svg", { role: "img", "data-picture": true });
  #labels = s("g");
  #recorded: Recorded | undefined;

  constructor(tooltip: Tooltip, press: (joint: number) => void) {
    this.element = h(
      "div",
      { class: "srk-timeline", tabindex: 0, role: "group", "aria-label": "Ranks over time" },
      this.#svg,
    );
    this.element.addEventListener("scroll", () => this.#keepLabels());
    const at = (event: MouseEvent) => {
      const found = (event.target as Element).closest<SVGElement>("[data-joint]");
      return found && { joint: Number(found.dataset.joint), rank: Number(found.dataset.rank) };
    };
    this.#svg.addEventListener("click", (event) => {
      const found = at(event);
      if (found) press(found.joint);
    });
    this.#svg.addEventListener("pointermove", (event) => {
      const found = at(event);
      tooltip.show(found ? this.#describe(found.joint, found.rank) : undefined, event.clientX, event.clientY);
    });
    this.#svg.addEventListener("pointerleave", () => tooltip.hide());
  }

  /** px, a scrollbar where it has one included. */
  height = 0;

  draw({ recorded, position, axis, width }: TimelineShown): void {
    this.#recorded = recorded;
    const { joints, run, begins } = recorded;
    const last = Math.max(1, ...joints.map((_, at) => endOf(recorded, at)));
    const inner =
      axis === "time" ? width - LEFT - RIGHT : Math.max(width - LEFT - RIGHT, joints.length * CELL);
    const whole = inner + LEFT + RIGHT;
    const cell = inner / Math.max(1, joints.length);
    const names = axis === "order" ? joints.map((joint) => nameLines(joint, cell)) : [];
    const height = run.size * ROW + AXIS + (names.some((lines) => lines.length > 1) ? LINE : 0);
    this.height = height + (whole > width ? SCROLLBAR : 0);
    const svg = this.#svg;
    svg.setAttribute("width", String(whole));
    svg.setAttribute("height", String(height));
    svg.setAttribute("viewBox", `0 0 ${whole} ${height}`);
    svg.setAttribute(
      "aria-label",
      `${format.plural(joints.length, "collective")} of ${format.plural(run.size, "rank")} within ${micros(last)}`,
    );
    const defs = s("defs");
    const paint = new SvgPaint(defs, uniqueId("ranks"));
    const parts: SVGElement[] = [defs];
    const labels: SVGElement[] = [
      s("rect", { x: 0, y: 0, width: LEFT - 4, height: run.size * ROW, class: "srk-behind" }),
    ];
    const x = (time: number) => LEFT + (inner * time) / last;
    for (let rank = 0; rank < run.size; rank++) {
      const y = rank * ROW + 4;
      labels.push(s("text", { x: 2, y: y + 16, class: "srk-label" }, `rank ${rank}`));
      if (axis === "time") {
        const from = x(begins[rank] ?? 0);
        const ends = joints.map((_, at) => spanOf(recorded, at, rank)?.end ?? 0);
        const to = x(Math.max(0, ...ends));
        parts.push(
          s("rect", {
            x: from,
            y: y + 6,
            width: Math.max(0, to - from),
            height: BAR - 12,
            class: "srk-compute",
          }),
        );
      }
      joints.forEach((joint, at) => {
        const span = spanOf(recorded, at, rank);
        if (!span) return;
        const met = Math.min(span.end, Math.max(span.begin, metAt(recorded, at)));
        const [left, middle, right] =
          axis === "time"
            ? [x(span.begin), x(met), x(span.end)]
            : inCell(LEFT + at * cell + 2, cell - 4, span, met);
        const state = at < position ? "done" : "future";
        const group = s("g", {
          class: "srk-joint",
          "data-joint": at,
          "data-rank": rank,
          "data-state": state,
          "data-now": String(at === position - 1),
        });
        if (middle > left)
          group.append(
            s("rect", { x: left, y: y + 3, width: middle - left, height: BAR - 6, class: "srk-wait" }),
          );
        group.append(
          s("rect", {
            x: middle,
            y,
            width: Math.max(LEAST, right - middle),
            height: BAR,
            fill: paint.fill(KIND_LOOKS[joint.kind]),
            class: "srk-move",
          }),
        );
        parts.push(group);
      });
    }
    const now = joints[position - 1];
    if (now) {
      const at = axis === "time" ? x(endOf(recorded, position - 1)) : LEFT + position * cell;
      parts.push(s("line", { x1: at, x2: at, y1: 0, y2: run.size * ROW, class: "srk-cursor" }));
    }
    if (axis === "time") parts.push(...timeAxis(last, x, run.size * ROW));
    else parts.push(...orderAxis(names, cell, run.size * ROW));
    this.#labels.replaceChildren(...labels);
    svg.replaceChildren(...parts, this.#labels);
    if (axis === "order" && now) {
      const at = LEFT + position * cell;
      const box = this.element;
      if (at - cell < box.scrollLeft || at > box.scrollLeft + box.clientWidth)
        box.scrollLeft = at - box.clientWidth / 2;
    }
    this.#keepLabels();
  }

  /** Names of ranks stay at the left, whatever is scrolled to. */
  #keepLabels(): void {
    this.#labels.setAttribute("transform", `translate(${this.element.scrollLeft} 0)`);
  }

  #describe(at: number, rank: number): string | undefined {
    const recorded = this.#recorded;
    const joint = recorded?.joints[at];
    const span = recorded && spanOf(recorded, at, rank);
    if (!recorded || !joint || !span) return undefined;
    const met = Math.min(span.end, Math.max(span.begin, metAt(recorded, at)));
    return [
      `${at + 1}. ${NAMES[joint.kind]} ${joint.module}${joint.what ? `\n${joint.what}` : ""}`,
      `rank ${rank}: begins at ${micros(span.begin)}`,
      `waits ${micros(met - span.begin)}, then ${micros(span.end - met)}`,
    ].join("\n");
  }
}

/** In order of collectives each has the same room, shared by waiting and moving as they took time. */
function inCell(
  left: number,
  width: number,
  span: { begin: number; end: number },
  met: number,
): [number, number, number] {
  const whole = Math.max(1e-9, span.end - span.begin);
  return [left, left + (width * (met - span.begin)) / whole, left + width];
}

function timeAxis(last: number, x: (time: number) => number, y: number): SVGElement[] {
  const rough = last / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((each) => each * power >= rough) ?? 10) * power;
  const inside = (time: number) => x(time) + TICK_LABEL < x(last) + RIGHT;
  const times = Array.from({ length: Math.floor(last / step) + 1 }, (_, i) => i * step).filter(inside);
  return times.flatMap((time) => [
    s("line", { x1: x(time), x2: x(time), y1: y, y2: y + 4, class: "srk-tick" }),
    s("text", { x: x(time) + 3, y: y + 15, class: "srk-axis" }, time === 0 ? "0" : tick(time, step)),
  ]);
}

/** Without digits that all ticks share. */
function tick(time: number, step: number): string {
  if (step >= 500_000) return `${(time / 1e6).toFixed(1).replace(/\.0$/, "")} s`;
  if (step >= 1000) return `${(time / 1000).toFixed(step >= 10_000 ? 0 : 1).replace(/\.0$/, "")} ms`;
  return `${time.toFixed(0)} µs`;
}

function nameLines({ module, what }: Joint, cell: number): string[] {
  return wrapped(what || shortName(module) || "", Math.max(2, Math.floor(cell / 6.5) - 1));
}

function orderAxis(names: readonly string[][], cell: number, y: number): SVGElement[] {
  return names.flatMap((lines, at) =>
    lines.map((line, i) =>
      s("text", { x: LEFT + at * cell + 2, y: y + 14 + i * LINE, class: "srk-axis" }, line),
    ),
  );
}
