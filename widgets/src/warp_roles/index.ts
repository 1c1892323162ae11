// WarpRoles: every warp of a CTA pair on a timeline, what runs beside them, and who released whom.

import "../launch/launch.css";
import "./warp_roles.css";
import {
  type Context,
  defineWidget,
  format,
  framed,
  type Header,
  type Hit,
  makeFrame,
  type Selection,
  Timeline,
  Transport,
  watchTheme,
} from "../core";
import { type Launch, readLaunch } from "../launch/data";
import { firstStep, followSession } from "../launch/follow";
import { barrierKey, barrierOf, rowsOf } from "../launch/names";
import { Relations } from "../launch/relations";
import { Search } from "../launch/search";
import { eventText, operationText, waitText } from "../launch/sentences";
import { trackOf } from "../launch/stops";
import { readTimes, timedLaunch } from "../launch/timed";
import { touching } from "../launch/touching";
import { makeControls } from "./controls";
import { eventDetails, hint, type Jumps, operationDetails } from "./details";
import { type WarpTimeline, warpTimeline } from "./model";
import { RingsView } from "./rings_view";

interface Shown {
  launch: Launch;
  relations: Relations;
  timeline: WarpTimeline;
  search: Search;
}

function render({ el, source, selection, disposer }: Context): void {
  let shown: Shown | undefined;
  let issued: Launch | undefined;
  let picked: { event: number } | { operation: number } | undefined;
  const transport = new Transport();

  const frame = makeFrame(el, disposer, {
    source,
    transport,
    onEscape: () => {
      picked = undefined;
      selection.set({}, frame);
      update.schedule();
    },
    keys: () => [
      ...timeline.keys(),
      { keys: ["ArrowDown"], label: "select the next warp", run: () => stepWarp(1) },
      { keys: ["ArrowUp"], label: "select the previous warp", run: () => stepWarp(-1) },
      {
        keys: ["Enter"],
        label: "select what was just executed",
        run: () => pickEvent(transport.position - 1),
      },
      { keys: ["p"], label: "select the next barrier of a pipeline", run: () => stepBarrier(1) },
      { keys: ["P"], label: "select the previous barrier of a pipeline", run: () => stepBarrier(-1) },
      { keys: ["c"], label: "go to the cause of the selected event", run: () => goToCause() },
      { keys: ["e"], label: "go to the first effect of the selected event", run: () => goToEffect() },
      {
        keys: ["/"],
        label: "search instructions, source lines and barriers",
        run: () => controls.focusSearch(),
      },
    ],
  });
  const theme = watchTheme(frame.root, disposer, () => {
    timeline.redraw();
    update.schedule();
  });
  const timeline = new Timeline(
    {
      label: "Warps",
      theme,
      tooltip: frame.tooltip,
      describe: (hit, row) => describe(hit, row),
      select: (hit, row, x) => press(hit, row, x),
      selectRow: (row) => selectRow(row),
    },
    disposer,
  );
  const controls = makeControls(disposer, {
    zoom: (factor) => timeline.glide(zoomedAround(factor)),
    whole: () => timeline.glide({ start: 0, end: timeline.model.length }),
    search: (query, direction) => find(query, direction),
    show: (cluster) => void ask("show", { cluster }),
    showCta: (cta) => void ask("show_cta", { cta }),
    axis: (timed) => void switchAxis(timed),
  });
  const rings = new RingsView((barrier) => selectBarrier(barrier));
  frame.toolbar.append(...controls.parts);
  frame.view.append(timeline.element, rings.element);

  const jumps: Jumps = {
    toEvent: (event) => {
      const index = shown?.launch.places.indexOf(event) ?? -1;
      if (index >= 0) pickEvent(index);
    },
    toBarrier: (barrier) => selectBarrier(barrier),
  };

  function zoomedAround(factor: number) {
    const { start, end } = timeline.range;
    const cursor = shown?.launch.clock.x(transport.position) ?? 0;
    const at = Math.max(start, Math.min(end, cursor));
    return { start: at - (at - start) * factor, end: at + (end - at) * factor };
  }

  function describe(hit: Hit | undefined, row: number): string | undefined {
    if (!shown) return undefined;
    const { launch, relations } = shown;
    if (!hit) return timeline.model.rows[row]?.title;
    if (hit.layer === "wait") return waitText(launch, hit.id);
    const subject = shown.timeline.subjects[hit.row];
    return subject && "warp" in subject
      ? eventText(launch, relations, hit.id)
      : operationText(launch, hit.id);
  }

  function press(hit: Hit | undefined, row: number, x: number): void {
    if (!shown) return;
    if (!hit) {
      if (row < 0) transport.goTo(shown.launch.clock.stepAt(x));
      else selectRow(row);
      return;
    }
    const subject = shown.timeline.subjects[hit.row];
    if (hit.layer === "wait") {
      const event = shown.launch.waits.event[hit.id] as number;
      pickEvent(shown.launch.places.indexOf(event));
    } else if (subject && "warp" in subject) pickEvent(hit.id);
    else pickOperation(hit.id);
  }

  /** Selects an event and goes to the moment behind it. */
  function pickEvent(index: number): void {
    if (!shown || index < 0) return;
    const { launch, relations } = shown;
    const { meta, events, actions } = launch;
    picked = { event: index };
    const row = events.row[index] as number;
    const action = relations.actionOf(events.at[index] as number);
    const barrier = action === undefined ? -1 : (actions.barrier[action] as number);
    const chosen: Selection = {
      cta: meta.ctas[Math.floor(row / meta.warps)] as number,
      warp: row % meta.warps,
      moment: launch.clock.momentAt(index + 1),
    };
    if (barrier >= 0) chosen.barrier = barrierKey(launch, barrier);
    transport.goTo(index + 1);
    selection.set(chosen, frame);
    update.schedule();
  }

  function pickOperation(operation: number): void {
    if (!shown) return;
    const { launch } = shown;
    const { meta, operations, places } = launch;
    picked = { operation };
    const row = operations.row[operation] as number;
    const barrier = operations.barrier[operation] as number;
    const chosen: Selection = {
      cta: meta.ctas[Math.floor(row / meta.warps)] as number,
      warp: row % meta.warps,
      moment: launch.clock.momentAt(places.stepAt(operations.done[operation] as number)),
    };
    if (barrier >= 0) chosen.barrier = barrierKey(launch, barrier);
    transport.goTo(places.stepAt(operations.done[operation] as number));
    selection.set(chosen, frame);
    update.schedule();
  }

  function selectRow(row: number): void {
    const subject = shown?.timeline.subjects[row];
    if (!shown || !subject) return;
    const { ctas, warps } = shown.launch.meta;
    picked = undefined;
    if ("warp" in subject)
      selection.set(
        { cta: ctas[Math.floor(subject.warp / warps)] as number, warp: subject.warp % warps },
        frame,
      );
    else selection.set({ cta: ctas[subject.rank] as number }, frame);
    update.schedule();
  }

  function selectBarrier(barrier: number): void {
    if (!shown) return;
    const { launch } = shown;
    const rank = launch.meta.barriers[barrier]?.rank ?? 0;
    selection.set({ cta: launch.meta.ctas[rank] as number, barrier: barrierKey(launch, barrier) }, frame);
  }

  function stepWarp(step: number): void {
    if (!shown) return;
    const { meta } = shown.launch;
    const rows = rowsOf(shown.launch, selection.value);
    const from = rows.length === 1 ? (rows[0] as number) : step > 0 ? -1 : meta.ctas.length * meta.warps;
    const row = Math.max(0, Math.min(meta.ctas.length * meta.warps - 1, from + step));
    selectRow(shown.timeline.rowOfWarp[row] as number);
  }

  /** Stage by stage, ring by ring: what pressing a sector does. */
  function stepBarrier(step: number): void {
    if (!shown) return;
    const all = shown.launch.meta.pipelines.flatMap(({ full, empty }) => [...full, ...empty]);
    const at = all.indexOf(barrierOf(shown.launch, selection.value) ?? -1);
    const from = at >= 0 ? at : step > 0 ? -1 : all.length;
    const next = all[Math.max(0, Math.min(all.length - 1, from + step))];
    if (next !== undefined) selectBarrier(next);
  }

  function goToCause(): void {
    if (!shown || !picked || !("event" in picked)) return;
    const cause = shown.relations.causeOf(shown.launch.events.at[picked.event] as number);
    if (cause !== undefined) jumps.toEvent(cause);
  }

  function goToEffect(): void {
    if (!shown || !picked || !("event" in picked)) return;
    const { relations, launch } = shown;
    const ended = relations.phasesEndedBy(launch.events.at[picked.event] as number);
    const first = ended.flatMap((phase) => relations.releasedBy(phase))[0];
    if (first) jumps.toEvent(first.event);
  }

  function find(query: string, direction: 1 | -1): string {
    const found = shown?.search.next(query, transport.position - 1, direction);
    if (!found) return query.trim() ? "nothing found" : "";
    pickEvent(found.index);
    return `${found.number} of ${found.count}`;
  }

  const update = framed(() => {
    if (!shown) return;
    const { launch, relations } = shown;
    frame.details.replaceChildren(
      ...(picked === undefined
        ? [hint()]
        : "event" in picked
          ? eventDetails(launch, relations, picked.event, jumps)
          : operationDetails(launch, picked.operation, jumps)),
    );
    timeline.stress(
      new Set(rowsOf(launch, selection.value).map((row) => shown?.timeline.rowOfWarp[row] as number)),
    );
    timeline.setSelected(hitOf(shown, picked));
    controls.offer(launch.meta, selection.value, source.live);
    rings.show(transport.position, barrierOf(launch, selection.value));
  });

  function hitOf({ launch, timeline: { rowOfWarp, subjects } }: Shown, what: typeof picked): Hit | undefined {
    if (!what) return undefined;
    if ("event" in what) {
      const row = rowOfWarp[launch.events.row[what.event] as number] as number;
      return timeline.find(row, what.event);
    }
    const { row, track } = launch.operations;
    const rank = Math.floor((row[what.operation] as number) / launch.meta.warps);
    const line = subjects.findIndex(
      (each) => "track" in each && each.rank === rank && each.track === track[what.operation],
    );
    return timeline.find(line, what.operation);
  }

  async function ask(command: string, args: Record<string, unknown>): Promise<void> {
    frame.clearNotice();
    try {
      await source.call<number>(command, args);
    } catch (error) {
      frame.notify("error", (error as Error).message);
    }
  }

  /** Draws the launch over modelled time, or over issue order again. The moment stays. */
  async function switchAxis(timed: boolean): Promise<void> {
    if (!issued) return;
    const revision = source.get<number>("revision");
    const moment = shown?.launch.clock.momentAt(transport.position) ?? 0;
    try {
      const launch = timed ? timedLaunch(issued, await readTimes(source)) : issued;
      if (source.get<number>("revision") !== revision) return;
      load(launch);
      transport.goTo(launch.clock.stepOf(moment));
    } catch (error) {
      frame.notify("error", (error as Error).message);
    }
  }

  async function reload(): Promise<void> {
    try {
      const launch = await readLaunch(source);
      if (!launch) return;
      issued = launch;
      controls.load(launch.meta, source.live);
      load(launch);
    } catch (error) {
      frame.setPlaceholder({ kind: "error", text: (error as Error).message, remedy: "Run the cell again." });
    }
  }

  function load(launch: Launch): void {
    frame.setHeader(headerFor(source.get<Header>("header"), launch));
    if (launch.meta.error) frame.notify("error", launch.meta.error);
    if (launch.events.size === 0) {
      frame.setPlaceholder({
        kind: "empty",
        text: "This cluster has executed nothing.",
        remedy: "Choose another cluster, or record a launch that does some work.",
      });
      return;
    }
    frame.setPlaceholder(null);
    const relations = new Relations(launch);
    const built = warpTimeline(launch);
    shown = { launch, relations, timeline: built, search: new Search(launch) };
    picked = undefined;
    timeline.load(built.model);
    rings.load(launch);
    transport.load(
      trackOf(launch, relations, () => touching(launch, selection.value)),
      firstStep(source, launch.clock),
    );
    transport.setGranularity("event");
    const { moment } = selection.value;
    if (moment !== undefined && source.get<number>("now") < 0) transport.goTo(launch.clock.stepOf(moment));
    update.schedule();
  }

  disposer.add(() => update.cancel());
  disposer.add(
    transport.changed.on(() => {
      timeline.setCursor(shown?.launch.clock.x(transport.position) ?? 0, true);
      update.schedule();
    }),
  );
  disposer.add(
    selection.on((value, origin) => {
      if (origin !== frame) {
        picked = undefined;
        if (shown && value.moment !== undefined) transport.goTo(shown.launch.clock.stepOf(value.moment));
      }
      update.schedule();
    }),
  );
  followSession(source, transport, disposer, () => shown?.launch.clock);
  source.onChange("revision", () => void reload());
  frame.setHeader(source.get<Header>("header"));
  frame.setPlaceholder({ kind: "loading", text: "Reading what was recorded." });
  void reload();
}

/** The badge says what the axis is. */
function headerFor(header: Header, { clock, meta }: Launch): Header {
  if (!clock.timed || !meta.timed) return header;
  const { product, total } = meta.timed;
  const title =
    `Events and values are those of the emulator; when they happened was not measured but modelled, for a ${product}: ` +
    `${format.duration(total)} for the launch. Steps go in the order of modelled time.`;
  return { ...header, badge: { text: `emulated · modelled time, ${product}`, title } };
}

export default defineWidget({ name: "warp_roles", version: 1, render });
