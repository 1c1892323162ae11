// One pane per planner: its name, what it says when it refuses, and its SMs over time.

import { type Disposer, format, h, type Theme, type Tooltip } from "@sglab/core";
import type { Selection } from "@sglab/protocol";
import type { Plans, Work } from "./data";
import { tooltipText, unitRows } from "./details";
import { type GanttLayout, ganttLayout, indexRows, rowHeightFor, unitAt } from "./gantt";
import { type Groups, groupItems } from "./grouping";
import { locate } from "./locate";
import { type PaneView, paintPane } from "./paint";
import type { Pane, PlannerName } from "./protocol";

const LEAST_PANE = 340; // px, as in the style sheet
const LEAST_ROWS = 150; // px: so that SMs can be distinguished
const BESIDE = 225; // px of the view beside the panes: lengths, headings, totals
const HEAD = 60; // px of a pane beside its rows

/** Pixels that the rows of one of so many panes may fill, in a view of this size. */
function targetHeight(panes: number, width: number, room: number): number {
  const columns = Math.max(1, Math.min(panes, Math.floor(width / LEAST_PANE)));
  return Math.max(LEAST_ROWS, (room - BESIDE) / Math.ceil(panes / columns) - HEAD);
}

export interface PaneEvents {
  focus(pane: number): void;
  pick(pane: number, unit: number): void;
  /** Another planner in this pane's place, or none. */
  replace(pane: number, name: string | null): void;
}

export interface PaneList {
  root: HTMLElement;
  load(plans: Plans, focused: number): void;
  /** `room`: pixels of height that all panes may take together with what is beside them. */
  paint(theme: Theme, now: number, selection: Selection, room: number): void;
}

interface Entry {
  pane: Pane;
  work: Work | null;
  byRequest: Int32Array;
  index: Groups | null;
  canvas: HTMLCanvasElement;
  host: HTMLElement;
  layout?: GanttLayout;
}

export function paneList(
  disposer: Disposer,
  planners: PlannerName[],
  editable: boolean,
  tooltip: Tooltip,
  events: PaneEvents,
): PaneList {
  const root = h("div", { class: "skv-panes" });
  let entries: Entry[] = [];
  let focused = 0;
  let shownNames = "";
  let domain = 1;

  const hover = (entry: Entry, event: PointerEvent) => {
    const { layout, work, index, pane } = entry;
    const unit = layout && work && index ? unitAt(layout, work, index, event.offsetX, event.offsetY) : -1;
    const text = work && unit >= 0 ? tooltipText(pane, work, unit) : undefined;
    tooltip.show(text, event.clientX, event.clientY);
  };

  const build = (plans: Plans) => {
    const names = plans.shown.map(({ pane }) => pane.name);
    entries = plans.shown.map(({ pane, work }, i) => {
      const canvas = h("canvas", { class: "skv-gantt", role: "img" });
      const host = h("section", { class: "skv-pane", "aria-label": pane.title });
      const entry: Entry = { pane, work, byRequest: new Int32Array(0), index: null, canvas, host };
      canvas.addEventListener("pointermove", (event) => hover(entry, event));
      canvas.addEventListener("pointerleave", tooltip.hide);
      canvas.addEventListener("pointerdown", (event) => {
        const { layout, work: shown, index } = entry;
        const unit =
          layout && shown && index ? unitAt(layout, shown, index, event.offsetX, event.offsetY) : -1;
        events.pick(i, unit);
      });
      host.append(paneHead(pane, i, names, planners, editable, events));
      return entry;
    });
    root.replaceChildren(...entries.map(({ host }) => host));
  };

  disposer.add(() => root.replaceChildren());
  return {
    root,
    load(plans, nextFocused) {
      const names = plans.shown.map(({ pane }) => pane.name).join();
      if (names !== shownNames) build(plans);
      shownNames = names;
      focused = nextFocused;
      domain = plans.shown.reduce((most, { pane }) => Math.max(most, pane.makespan ?? 0), 1);
      entries.forEach((entry, i) => {
        const { pane, work } = plans.shown[i] as Plans["shown"][number];
        Object.assign(entry, { pane, work });
        entry.byRequest = work
          ? groupItems(work.size, plans.lens.length, (i) => work.request[i] as number).items
          : new Int32Array(0);
        entry.index = work ? indexRows(work, pane.smCount * pane.ctasPerSm, pane.ctasPerSm) : null;
        entry.host.dataset.focused = String(i === focused && entries.length > 1);
        fill(entry);
      });
    },
    paint(theme, now, selection, room) {
      const target = targetHeight(entries.length, root.clientWidth, room);
      const widths = entries.map(({ host }) => host.clientWidth - 2);
      entries.forEach((entry, i) => {
        const { pane, work, byRequest, canvas } = entry;
        if (!work || pane.error !== undefined) return;
        const rowHeight = rowHeightFor(pane.smCount * pane.ctasPerSm, target);
        entry.layout = ganttLayout(pane, widths[i] as number, rowHeight, domain);
        const view: PaneView = { pane, work, byRequest, layout: entry.layout };
        paintPane(canvas, view, theme, now, selection, locate(work, selection));
      });
    },
  };
}

/** The head names the planner and lets another take its place. */
function paneHead(
  pane: Pane,
  i: number,
  names: string[],
  planners: PlannerName[],
  editable: boolean,
  events: PaneEvents,
): HTMLElement {
  const focus = h(
    "button",
    { type: "button", class: "sg-button skv-focus", title: `Show this plan's arrays and details (${i + 1})` },
    String(i + 1),
  );
  focus.addEventListener("click", () => events.focus(i));
  const head = h("header", { class: "skv-head" });
  if (names.length > 1) head.append(focus);
  if (!editable) {
    head.append(h("strong", {}, pane.title));
    return head;
  }
  const choose = h("select", { class: "sg-select", "aria-label": `Planner ${i + 1}` });
  for (const { name, title, attention } of planners) {
    const option = h("option", { value: name }, title + (attention === "mla" ? " · MLA" : ""));
    option.disabled = name !== pane.name && names.includes(name);
    choose.append(option);
  }
  choose.value = pane.name;
  choose.addEventListener("change", () => events.replace(i, choose.value));
  head.append(choose);
  if (names.length > 1) {
    const close = h(
      "button",
      {
        type: "button",
        class: "sg-button",
        "aria-label": `Close ${pane.title}`,
        title: "Close this pane",
        "data-no-picture": true,
      },
      "✕",
    );
    close.addEventListener("click", () => events.replace(i, null));
    head.append(close);
  }
  return head;
}

/** Below the head: the canvas, or a sentence in its place. */
function fill({ pane, work, canvas, host }: Entry): void {
  for (const sentence of host.querySelectorAll(".skv-sentence")) sentence.remove();
  if (pane.error !== undefined || !work) {
    canvas.remove();
    host.append(
      h("p", { class: "skv-sentence" }, h("span", { class: "skv-sign" }, "▲ "), pane.error ?? tooMany(pane)),
    );
    return;
  }
  canvas.setAttribute("aria-label", summary(pane, work));
  if (!canvas.isConnected) host.append(canvas);
}

function tooMany(pane: Pane): string {
  return (
    `${format.count(pane.units)} work units are too many to draw. The totals and arrays below are exact; ` +
    "shorten the batch to see where the work goes."
  );
}

function summary(pane: Pane, work: Work): string {
  const last = Array.from(work.end).indexOf(pane.makespan);
  const tail = work.size
    ? ` The last to end: ${unitRows(pane, work, last).slice(0, 2).flat().join(" ")}.`
    : "";
  return (
    `${pane.title}: ${format.plural(work.size, "work unit")} on ${pane.smCount} SMs over modelled time, ` +
    `${format.percent(pane.idleShare)} idle until ${format.plural(pane.makespan, "KV token")}.${tail}`
  );
}
