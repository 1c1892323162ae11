// WarpRoles: every warp of a CTA pair on a timeline, what runs beside them, and who released whom.

import type { WARP_ROLES } from "./protocol";
import "./warp_roles.css";
import {
  ALIVE,
  type Context,
  defineWidget,
  framed,
  type Hit,
  h,
  type LegendItem,
  type Look,
  legendMark,
  makeFrame,
  OPERATION_LOOKS,
  Timeline,
  type TourStep,
  Transport,
  watchTheme,
  whenInSight,
} from "@sglab/core";
import { AxisChoice, headerFor, notifyOf } from "@sglab/launch/axis_choice";
import { choiceOrRecord } from "@sglab/launch/cluster_choice";
import type { Launch } from "@sglab/launch/data";
import { firstStep, follow, selectedBefore } from "@sglab/launch/follow";
import { LaunchLoader } from "@sglab/launch/loader";
import { barrierOf } from "@sglab/launch/names";
import { eventText, operationText, waitText } from "@sglab/launch/sentences";
import { trackOf } from "@sglab/launch/stops";
import { touching } from "@sglab/launch/touching";
import { makeControls } from "./controls";
import { detailsOf } from "./details";
import { LOOKS, lookOfRole } from "./looks";
import { Picking } from "./picking";
import { RingsView } from "./rings_view";
import { hitOf, hitsOfPage, hitsOfRelations, makeShown, rowsToStress, type Shown } from "./shown";
import { barsIn, type Stretch } from "./stretches";

const BUNDLE_PX = 4; // bars within so little cannot be distinguished
const LEAST_BUNDLE = 4;
const SETTLE_MS = 100;
const PIPELINES = 26; // px of the line that opens them
const TOUR: TourStep[] = [
  {
    key: "ArrowRight",
    text: "to step: the line moves to the next event, and the sentence below says what it is.",
  },
  { key: "ArrowDown", text: "to select a warp: what it did and what it waited for is listed." },
  { key: "Shift+ArrowRight", text: "to go to the next event of that warp." },
  { key: "c", text: "to go to its next wait; c again goes to the wait's cause, e to the effect." },
  { key: "0", text: "to see the whole again; + and - zoom, Ctrl and the wheel too." },
];

function legendOf(launch: Launch): LegendItem[] {
  const executes = LOOKS[lookOfRole(launch.meta.roles[0] ?? "idle")] as Look;
  return [
    { label: "a warp executes", look: executes },
    { label: "a warp waits", mark: legendMark("dashes") },
    {
      label: "pale: in between",
      mark: pale(executes),
      title: launch.clock.timed
        ? "from a warp's first instruction to its last: here it waits for a result, or other warps issue"
        : "from a warp's first instruction to its last: here other warps execute",
    },
    ...(launch.operations.size
      ? [{ label: "in flight", look: OPERATION_LOOKS.copy, title: "from issue to completion" }]
      : []),
    ...(launch.waits.size ? [{ label: "who released whom", mark: legendMark("dots") }] : []),
    { label: "now", mark: legendMark("cursor") },
  ];
}

/** As a timeline draws it behind the bars. */
function pale(look: Look): HTMLElement {
  const mark = h("i", { class: "sg-swatch", "aria-hidden": "true" });
  mark.style.background = `color-mix(in srgb, ${look.fill} ${100 * ALIVE}%, transparent)`;
  return mark;
}

function render(context: Context<typeof WARP_ROLES>): void {
  const { el, source, selection, disposer } = context;
  let shown: Shown | undefined;
  const transport = new Transport();
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    readoutLines: 2,
    onEscape: () => pick.clear(),
    tour: { name: "warp_roles", steps: TOUR },
    keys: () => [
      ...timeline.keys(),
      { keys: ["ArrowDown"], label: "select the next warp", run: () => pick.nextWarp(1) },
      { keys: ["ArrowUp"], label: "select the previous warp", run: () => pick.nextWarp(-1) },
      {
        keys: ["Enter"],
        label: "select what was just executed",
        run: () => pick.event(transport.position - 1),
      },
      { keys: ["p"], label: "select the next barrier of a pipeline", run: () => pick.nextBarrier(1) },
      { keys: ["P"], label: "select the previous barrier of a pipeline", run: () => pick.nextBarrier(-1) },
      {
        keys: ["c"],
        label:
          "go to the cause of the selected event, or to its warp's wait before it; without a selection, to the next wait",
        run: () => pick.cause(),
      },
      {
        keys: ["e"],
        label: "go to the first effect of the selected event, or to the next that released one",
        run: () => pick.effect(),
      },
      {
        keys: ["z"],
        label: "zoom to the selected instruction, operation or bundle",
        run: () => pick.zoom(),
      },
      {
        keys: ["/"],
        label: "search instructions, source lines and barriers",
        run: () => {
          frame.openMore();
          controls.focusSearch();
        },
      },
    ],
  });
  const pick: Picking = new Picking(
    () => shown,
    transport,
    selection,
    () => timeline,
    frame,
    () => update.schedule(),
  );
  const theme = watchTheme(frame.root, disposer, () => {
    timeline.redraw();
    update.schedule();
  });
  const timeline: Timeline = new Timeline(
    {
      label: "Warps",
      theme,
      tooltip: frame.tooltip,
      describe: (hit, row, x) => describe(hit, row, x),
      moved: () => settle(),
      select: (hit, row, x) => press(hit, row, x),
      selectRow: (row) => pick.row(row),
    },
    disposer,
  );
  const axis = new AxisChoice(disposer, () => void loader.switchAxis());
  const controls = makeControls(disposer, axis, {
    zoom: (factor) => timeline.glide(zoomedAround(factor)),
    whole: () => timeline.whole(),
    search: (query, direction) => pick.find(query, direction),
    show: (cluster) => void loader.ask("show", { cluster }),
  });
  const rings = new RingsView((barrier) => pick.barrier(barrier), frame.tooltip);
  frame.toolbar.append(...controls.parts);
  frame.more.append(...controls.more);
  const summary = h("summary", {}, "Pipelines");
  const pipelines = h("details", { class: "swr-pipelines" }, summary, rings.element);
  disposer.listen(pipelines, "toggle", () => update.schedule());
  disposer.listen(summary, "click", () =>
    requestAnimationFrame(() => pipelines.scrollIntoView({ block: "nearest" })),
  );
  frame.view.append(timeline.element, pipelines);
  frame.setHeader(source.get("header"));

  /** What rows are described by; follows the view once it has stopped moving, as a sum takes longer than a frame. */
  let view = timeline.range;
  let settling: ReturnType<typeof setTimeout> | undefined;
  disposer.add(() => clearTimeout(settling));

  function settle(): void {
    clearTimeout(settling);
    settling = setTimeout(() => {
      view = timeline.range;
      update.schedule();
    }, SETTLE_MS);
  }

  function zoomedAround(factor: number) {
    const { start, end } = timeline.range;
    const cursor = shown?.launch.clock.x(transport.position) ?? 0;
    const at = Math.max(start, Math.min(end, cursor));
    return { start: at - (at - start) * factor, end: at + (end - at) * factor };
  }

  function describe(hit: Hit | undefined, row: number, x: number): string | undefined {
    if (!shown) return undefined;
    const { launch, relations } = shown;
    if (!hit) {
      const bundle = bundleAt(row, x);
      const title = timeline.model.rows[row]?.title;
      return bundle ? `${title}\nhere: ${barsIn(shown, bundle).count}; press to see which` : title;
    }
    if (hit.layer === "wait") return waitText(launch, hit.id);
    const subject = shown.timeline.subjects[hit.row];
    return subject && "warp" in subject
      ? eventText(launch, relations, hit.id)
      : operationText(launch, hit.id);
  }

  /** Bars too close to distinguish, around a place of a row. */
  function bundleAt(row: number, x: number): Stretch | undefined {
    if (!shown || row < 0) return undefined;
    const reach = BUNDLE_PX * timeline.unitsPerPixel;
    const { count, filled } = barsIn(shown, { row, start: x - reach, end: x + reach });
    return count >= LEAST_BUNDLE ? filled : undefined;
  }

  function press(hit: Hit | undefined, row: number, x: number): void {
    if (!shown) return;
    const { launch } = shown;
    const subject = hit && shown.timeline.subjects[hit.row];
    const bundle = bundleAt(row, x);
    if (!hit && row < 0) transport.goTo(launch.clock.stepAt(x));
    else if (!hit) pick.row(row, bundle);
    else if (hit.layer === "wait") pick.numbered(launch.waits.event[hit.id] as number);
    else if (subject && "warp" in subject) pick.event(hit.id, bundle);
    else pick.operation(hit.id, bundle);
  }

  let drawn: readonly unknown[] = [];
  const update = framed(() => {
    if (!shown) return;
    const { position } = transport;
    const barrier = barrierOf(shown.launch, selection.value);
    const { picked } = pick;
    const open = !picked || "row" in picked; // a row is described as far as it is in view, a barrier at this moment
    const told = [open && view, open && barrier !== undefined && position];
    const subject = [shown, picked, selection.value, ...told];
    if (subject.some((each, i) => each !== drawn[i])) {
      frame.details.replaceChildren(...detailsOf(shown, picked, selection.value, view, position, pick));
      timeline.stress(rowsToStress(shown, picked, selection.value));
      timeline.setSelected(hitOf(timeline, shown, picked));
      timeline.mark([
        ...hitsOfPage(timeline, shown, { page: selection.value.page }),
        ...hitsOfRelations(timeline, shown, picked),
      ]);
      drawn = subject;
    }
    if (pipelines.open) rings.show(position, barrier);
  });

  /** All rows and the line that opens the pipelines are in sight, where that can be. */
  function fit(): void {
    if (shown) frame.fillRoom(timeline.fit(frame.room() - (pipelines.hidden ? 0 : PIPELINES)));
  }
  const resized = new ResizeObserver(fit);
  for (const each of [frame.root, frame.view, frame.more]) resized.observe(each);
  disposer.add(() => resized.disconnect());

  function load(launch: Launch, moment: number | undefined): void {
    frame.setHeader(headerFor(source.get("header"), launch));
    controls.load(launch.meta, source.live);
    notifyOf(frame, launch);
    if (launch.events.size === 0) {
      frame.setPlaceholder({
        kind: "empty",
        text: "This cluster has executed nothing.",
        remedy: `${choiceOrRecord(launch.meta)} a launch that does some work.`,
      });
      return;
    }
    frame.setPlaceholder(null);
    const next = makeShown(launch);
    shown = next;
    pick.forget();
    timeline.load(next.timeline.model);
    view = timeline.range;
    rings.load(launch);
    pipelines.hidden = !launch.meta.pipelines.length;
    frame.setLegend(legendOf(launch));
    fit();
    transport.load(
      trackOf(launch, next.relations, () => touching(launch, selection.value, next.pages)),
      firstStep(source, launch.clock),
    );
    transport.setGranularity("event");
    const asked = moment ?? selectedBefore(source, selection);
    if (asked !== undefined) transport.goTo(launch.clock.stepOf(asked));
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
      if (origin === frame) update.schedule();
      else inSight("selection", () => pick.follow(selection.value));
    }),
  );
  follow({ source, transport, selection, disposer, inSight, own: frame, clock: () => shown?.launch.clock });
}

export default defineWidget<typeof WARP_ROLES>({ name: "warp_roles", version: 2, render });
