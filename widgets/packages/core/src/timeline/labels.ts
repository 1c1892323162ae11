// The rows' labels beside a timeline: buttons that select their rows, and whatever is beside them.

import { cssBackground, type Look } from "../colors";
import { h } from "../dom";
import type { Layout } from "./layout";
import type { TimelineModel, TimelineRow } from "./model";

export class TimelineLabels {
  readonly element = h("div", { class: "sg-timeline-labels" });

  constructor(private select: (row: number) => void) {}

  show({ rows, looks, heading }: TimelineModel, layout: Layout): void {
    const parts: HTMLElement[] = [];
    for (const { name, y } of layout.groups) {
      const group = h("div", { class: "sg-timeline-group" }, name);
      group.style.top = `${y}px`;
      parts.push(group);
    }
    rows.forEach((row, i) => {
      parts.push(this.#line(row, i, layout, looks));
    });
    if (heading) parts.push(heading);
    // lines are placed by hand; this one gives the column its width
    const longest = rows.reduce((found, { label }) => (label.length > found.length ? label : found), "");
    parts.push(h("div", { class: "sg-timeline-sizer", "aria-hidden": "true" }, longest));
    this.element.replaceChildren(...parts);
    this.element.style.height = `${layout.height}px`;
  }

  reveal(row: number): void {
    this.element.querySelectorAll(".sg-timeline-line")[row]?.scrollIntoView({ block: "nearest" });
  }

  stress(rows: ReadonlySet<number>): void {
    const labels = [...this.element.querySelectorAll<HTMLElement>(".sg-timeline-label")];
    for (const [row, label] of labels.entries()) label.setAttribute("aria-pressed", String(rows.has(row)));
    const [first] = rows;
    // the focus goes along: else two rows look selected
    if (
      first !== undefined &&
      labels.some((label, row) => label === document.activeElement && !rows.has(row))
    )
      labels[first]?.focus({ preventScroll: true });
  }

  #line(row: TimelineRow, index: number, layout: Layout, looks: Look[]): HTMLElement {
    const box = layout.rows[index] as { y: number; height: number };
    const swatch = h("span", { class: "sg-swatch", "aria-hidden": "true" });
    if (row.look !== undefined) swatch.style.background = cssBackground(looks[row.look] as Look);
    const attributes = {
      type: "button",
      class: "sg-timeline-label",
      tabindex: -1,
      title: row.title,
      "aria-pressed": "false",
    };
    const label = h("button", attributes, swatch, h("span", {}, row.label));
    label.addEventListener("click", () => this.select(index));
    const line = h("div", { class: "sg-timeline-line" }, label, row.extra);
    line.style.top = `${box.y}px`;
    line.style.height = `${box.height}px`;
    return line;
  }
}
