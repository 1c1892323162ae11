// Barriers: every mbarrier and named barrier of a cluster at any step of a recorded launch, and its history.

import type { BARRIERS } from "./protocol";
import "./barriers.css";
import {
  type Context,
  defineWidget,
  framed,
  h,
  type LegendItem,
  legendMark,
  makeFrame,
  ROLE_LOOKS,
  Timeline,
  type TourStep,
  Transport,
  watchTheme,
  whenInSight,
} from "@sglab/core";
import { AxisChoice, headerFor, notifyOf } from "@sglab/launch/axis_choice";
import { barrierDetails } from "@sglab/launch/barrier_details";
import { choiceOrRecord } from "@sglab/launch/cluster_choice";
import type { Barrier, Launch } from "@sglab/launch/data";
import { firstStep, follow, selectedBefore } from "@sglab/launch/follow";
import { LaunchLoader } from "@sglab/launch/loader";
import { barrierKey, barrierOf, rowsOf } from "@sglab/launch/names";
import { toFailure } from "@sglab/launch/parts";
import { Relations } from "@sglab/launch/relations";
import { BarrierStates } from "@sglab/launch/states";
import { type Cells, cellsHeading, makeCells, stateText } from "./cells";
import { makeControls } from "./controls";
import { barrierTimeline } from "./model";
import { trackOf } from "./track";

interface Shown {
  launch: Launch;
  relations: Relations;
  states: BarrierStates;
  /** The barriers that have rows. */
  rows: number[];
  cells: Cells[];
}

function render(context: Context<typeof BARRIERS>): void {
  const { el, source, selection, disposer } = context;
  let shown: Shown | undefined;
  const transport = new Transport();
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    readoutLines: 2,
    onEscape: () => selection.set({}, frame),
    tour: { name: "barriers", steps: TOUR },
    keys: () => [
      ...timeline.keys(),
      { keys: ["ArrowDown"], label: "select the next barrier", run: () => stepBarrier(1) },
      { keys: ["ArrowUp"], label: "select the previous barrier", run: () => stepBarrier(-1) },
    ],
  });
  const theme = watchTheme(frame.root, disposer, () => timeline.redraw());
  const timeline = new Timeline(
    {
      label: "Barriers",
      theme,
      tooltip: frame.tooltip,
      describe: (_, row, x) => describe(row, x),
      select: (_, row, x) => {
        if (row >= 0) selectRow(row);
        if (shown) transport.goTo(shown.launch.clock.stepAt(x));
      },
      selectRow: (row) => selectRow(row),
    },
    disposer,
  );
  const axis = new AxisChoice(disposer, () => void loader.switchAxis());
  const controls = makeControls(disposer, axis, {
    filter: () => arrange(true),
    show: (cluster) => void loader.ask("show", { cluster }),
  });
  frame.toolbar.append(...controls.parts);
  frame.more.append(...controls.more);
  frame.setLegend(LEGEND());
  frame.setHeader(source.get("header"));
  frame.view.append(h("div", { class: "sbr-view" }, timeline.element));

  const chosen = () => (shown ? barrierOf(shown.launch, selection.value) : undefined);

  function describe(row: number, x: number): string | undefined {
    const index = shown?.rows[row];
    if (!shown || index === undefined) return undefined;
    const step = Math.max(0, shown.launch.clock.stepAt(x));
    return stateText(shown.launch, index, shown.states.at(index, step), shown.launch.places.positionAt(step));
  }

  function selectRow(row: number): void {
    const index = shown?.rows[row];
    if (index !== undefined) selectBarrier(index);
  }

  function selectBarrier(index: number): void {
    if (!shown) return;
    const { meta } = shown.launch;
    const rank = meta.barriers[index]?.rank ?? 0;
    selection.set({ cta: meta.ctas[rank] as number, barrier: barrierKey(shown.launch, index) }, frame);
  }

  function stepBarrier(step: number): void {
    if (!shown?.rows.length) return;
    const at = shown.rows.indexOf(chosen() ?? -1);
    const from = at >= 0 ? at : step > 0 ? -1 : shown.rows.length;
    const row = Math.max(0, Math.min(shown.rows.length - 1, from + step));
    selectRow(row);
    timeline.revealRow(row);
  }

  function toEvent(event: number): void {
    const index = shown?.launch.places.indexOf(event) ?? -1;
    if (!shown || index < 0) return;
    const { launch } = shown;
    transport.goTo(index + 1);
    const row = launch.events.row[index] as number;
    const { barrier } = selection.value;
    selection.set(
      {
        cta: launch.meta.ctas[Math.floor(row / launch.meta.warps)] as number,
        warp: row % launch.meta.warps,
        moment: launch.places.positionAt(index + 1),
        ...(barrier === undefined ? {} : { barrier }),
      },
      frame,
    );
  }

  const update = framed(() => {
    if (!shown) return;
    const { launch, states, relations, rows, cells } = shown;
    const step = transport.position;
    const position = launch.places.positionAt(step);
    rows.forEach((barrier, i) => {
      cells[i]?.show(launch, states.at(barrier, step), position);
    });
    const index = chosen();
    frame.details.replaceChildren(
      ...(index === undefined
        ? [hint(), ...toFailure(launch, () => transport.goTo(launch.places.size))]
        : barrierDetails(launch, relations, states, index, step, toEvent)),
    );
    keepHeight(index === undefined);
    timeline.stress(stressed(shown, index));
  });

  /** What is said changes with every step; the transport must not move away from under the pointer. */
  function keepHeight(reset: boolean): void {
    const { style, offsetHeight } = frame.details;
    style.minHeight = reset ? "" : `${offsetHeight}px`;
  }

  /** The selected barrier; or those at which the selected warp or CTA waits now. */
  function stressed({ launch, states, rows }: Shown, index: number | undefined): Set<number> {
    if (index !== undefined) return new Set([rows.indexOf(index)].filter((row) => row >= 0));
    const warps = new Set(rowsOf(launch, selection.value));
    if (!warps.size) return new Set();
    const waits = (barrier: number) =>
      states.waitingAt(barrier, transport.position).some(({ row }) => warps.has(row));
    return new Set(rows.flatMap((barrier, row) => (waits(barrier) ? [row] : [])));
  }

  function fit(): void {
    if (shown) frame.fillRoom(timeline.fit(frame.room()));
  }
  const resized = new ResizeObserver(fit);
  for (const each of [frame.root, frame.view, frame.more]) resized.observe(each);
  disposer.add(() => resized.disconnect());

  /** Which barriers have rows, by the toolbar; a selected one always has. */
  function arrange(keepRange: boolean): void {
    if (!shown) return;
    const { launch, states } = shown;
    const { meta } = launch;
    const index = chosen();
    controls.reveal(index === undefined ? undefined : meta.barriers[index]?.rank);
    const rows = inOrder(meta.barriers).filter(
      (i) => controls.shows(meta.barriers[i], states.used(i)) || i === index,
    );
    const cells = rows.map(makeCells);
    shown = { ...shown, rows, cells };
    const extras = cells.map(({ element }) => element);
    timeline.load(barrierTimeline(launch, states, rows, extras, cellsHeading()), keepRange);
    fit();
    timeline.setCursor(launch.clock.x(transport.position), false);
    update.schedule();
  }

  function load(launch: Launch, moment: number | undefined): void {
    frame.setHeader(headerFor(source.get("header"), launch));
    controls.load(launch.meta, source.live);
    notifyOf(frame, launch);
    if (!launch.meta.barriers.length) {
      frame.setPlaceholder({
        kind: "empty",
        ...(launch.meta.error
          ? {
              text: `No warp of ${launch.meta.kernel} had passed a barrier here when it failed.`,
              remedy: "Where one waits that no warp passes is said above; KernelDebugger(session) shows it.",
            }
          : {
              text: `${launch.meta.kernel} uses no barriers here.`,
              remedy: `${choiceOrRecord(launch.meta)} a kernel whose warps wait for each other.`,
            }),
      });
      return;
    }
    frame.setPlaceholder(null);
    const states = new BarrierStates(launch);
    const relations = new Relations(launch);
    const first = shown === undefined;
    shown = { launch, relations, states, rows: [], cells: [] };
    arrange(false);
    transport.load(
      trackOf(launch, relations, states, () => chosen()),
      firstStep(source, launch.clock),
    );
    if (first) transport.setGranularity("phase");
    const asked = moment ?? selectedBefore(source, selection);
    if (asked !== undefined) transport.goTo(launch.clock.stepOf(asked));
  }

  function showSelected(): void {
    if (!shown) return;
    const index = chosen();
    if (index !== undefined && !shown.rows.includes(index)) arrange(true);
    transport.refresh();
  }

  const inSight = whenInSight(frame.root, disposer);
  const loader: LaunchLoader = new LaunchLoader(context, frame, axis, inSight, {
    load,
    moment: () => shown?.launch.clock.momentAt(transport.position),
  });
  disposer.add(() => update.cancel());
  disposer.add(
    transport.changed.on(() => {
      timeline.setCursor(shown?.launch.clock.x(transport.position) ?? 0, true);
      update.schedule();
    }),
  );
  disposer.add(
    selection.on((_, origin) => {
      if (origin === frame) showSelected();
      else inSight("selection", showSelected);
    }),
  );
  follow({ source, transport, selection, disposer, inSight, own: frame, clock: () => shown?.launch.clock });
}

const TOUR: TourStep[] = [
  { key: "ArrowRight", text: "to step to the next end of a phase; the sentence below says who ended it." },
  { key: "ArrowDown", text: "to select a barrier: who arrives, who waits, since when." },
  { key: "Shift+ArrowRight", text: "to go to the next thing that happens to it." },
  { key: "+", text: "to zoom in around the line; 0 shows the whole." },
  { key: "Escape", text: "to clear the selection. ? lists all keys." },
];

const LEGEND = (): LegendItem[] => [
  { label: "height: share of a phase's arrivals that have come", look: ROLE_LOOKS.load },
  { label: "bytes still under way", mark: legendMark("line") },
  { label: "a warp waits", mark: legendMark("dashes") },
  { label: "every other phase", mark: legendMark("shade") },
  { label: "now", mark: legendMark("cursor") },
];

function hint(): HTMLElement {
  return h(
    "p",
    { class: "sg-note" },
    "Press a barrier, or ↓, to see who waits for it, who has still to arrive and what happened to it; then Shift+→ for " +
      "the next thing that happens to it.",
  );
}

/** By CTA; the cluster's own at the end. */
function inOrder(barriers: readonly Barrier[]): number[] {
  const place = ({ kind, rank }: Barrier) => (kind === "cluster" ? Number.POSITIVE_INFINITY : rank);
  return barriers
    .map((_, i) => i)
    .sort((a, b) => compare(place(barriers[a] as Barrier), place(barriers[b] as Barrier)) || a - b);
}

function compare(a: number, b: number): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

export default defineWidget<typeof BARRIERS>({ name: "barriers", version: 2, render });
