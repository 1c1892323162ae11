// SplitKV: planners side by side on one batch. Python plans; this page asks, draws and steps.

import type { SPLIT_KV } from "./protocol";
import "./split_kv.css";
import {
  type Context,
  type Deed,
  defineWidget,
  failure,
  framed,
  h,
  historyOf,
  keepPlace,
  type LegendItem,
  legendMark,
  lookOf,
  makeFrame,
  makeTooltip,
  requestsOf,
  revealWithin,
  Tabs,
  type TourStep,
  Transport,
  watchTheme,
  whenInSight,
} from "@sglab/core";
import type { Numbers, Selection } from "@sglab/protocol";
import { arrayList } from "./arrays";
import { type Edit, makeAsker } from "./asker";
import { makeControls } from "./controls";
import { nameOf, namesOf, type Plans, plansOf, readPlans } from "./data";
import { definitions, requestRows, unitRows } from "./details";
import { lengthBars } from "./lengths";
import { locate, selectionOf } from "./locate";
import { paneList } from "./panes";
import { type Timeline, timelineOf } from "./timeline";
import { caution, totalsTable } from "./totals";

const ARRAYS_AFTER_MS = 150;
const HINT = "Press a bar or a work unit, or the ↓ key, to select a request and see where it goes.";

function render({ el, source, selection: shared, disposer }: Context<typeof SPLIT_KV>): void {
  const selection = requestsOf(() => namesOf(source), shared);
  const planners = source.get("planners");
  let plans: Plans | undefined;
  let planned: Numbers = new Int32Array(); // the lengths that the shown plans are of: the bars' are ahead of them in a drag
  let timeline: Timeline | undefined;
  let opened = false;
  let focused = 0;
  let picked = -1;
  let shownLegend = "";
  let arraysTimer: ReturnType<typeof setTimeout> | undefined;

  const lengthKeys = [
    { keys: ["+", "="], label: "lengthen the selected request by an eighth", run: () => scaleLength(9 / 8) },
    { keys: ["-"], label: "shorten it by a ninth", run: () => scaleLength(8 / 9) },
  ];
  const transport = new Transport();
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    tour: { name: "split_kv", steps: tourSteps(source.live) },
    onEscape: () => selection.set({}),
    keys: () => [
      { keys: ["ArrowDown"], label: "select the next request", run: () => stepRequest(1) },
      { keys: ["ArrowUp"], label: "select the previous request", run: () => stepRequest(-1) },
      { keys: ["."], label: "next work unit of the request", run: () => stepUnit(1) },
      { keys: [","], label: "previous work unit of the request", run: () => stepUnit(-1) },
      ...(source.live ? lengthKeys : []), // a saved page cannot plan
      ...(plans?.shown ?? []).slice(0, 9).map(({ pane }, i) => ({
        keys: [String(i + 1)],
        label: `focus ${pane.title}`,
        run: () => focusOn(i),
      })),
    ],
  });
  frame.setHeader(source.get("header"));
  const theme = watchTheme(frame.root, disposer, () => draw.schedule());

  const asker = makeAsker(
    (edit) => source.call("edit", { ...edit }),
    (answer, asked, waiting) => {
      knownRevision = answer.revision;
      const next = plansOf(answer, namesOf(source));
      // what was dragged meanwhile stays as it is: Python hears of it next
      show(next, waiting?.seq_lens);
      const milliseconds = performance.now() - asked;
      frame.root.dataset.replanMs = milliseconds.toFixed(1);
      if (plans) controls.measured(milliseconds, plans.lens.length);
    },
    (error) => {
      frame.notify("error", (error as Error).message);
      plans?.lens.set(planned); // a bar that was dragged goes back, also when Python answers no more
      draw.schedule();
      if (source.connection !== "lost") void reload();
    },
  );
  let knownRevision = -1;

  const history = historyOf(disposer);
  const ask = (edit: Edit, refused?: () => void) => {
    frame.clearNotice();
    asker.ask(edit, refused);
  };
  /** `key`: as in Deed. */
  const change = (edit: Edit, before = plans && beforeEdit(plans, edit), key?: string) => {
    const deed: Deed | undefined = before && {
      undo: () => ask(before),
      redo: () => ask(edit),
      ...(key && { key }),
    };
    ask(edit, () => deed && history.forget(deed));
    if (deed) history.did(deed);
  };
  const setLength = (request: number, length: number) => {
    if (!plans || !source.live) return;
    const before = { seq_lens: Array.from(plans.lens) };
    plans.lens[request] = Math.max(1, Math.round(length));
    drawBars.schedule();
    change({ seq_lens: Array.from(plans.lens) }, before, `length of ${request}`);
  };

  const controls = makeControls(
    disposer,
    planners,
    (edit) => change(edit),
    setLength,
    (text) => frame.notify("error", text),
  );
  const bars = lengthBars(disposer, (request) => selection.set({ request }, frame), setLength, source.live);
  const panes = paneList(disposer, planners, source.live, makeTooltip(frame.root), {
    focus: (pane) => focusOn(pane),
    pick: (pane, unit) => {
      focusOn(pane);
      if (unit < 0) selection.set({}, frame);
      else pickUnit(unit);
    },
    replace: (pane, name) => {
      const names = plans?.shown.map((each) => each.pane.name) ?? [];
      change({ planners: names.flatMap((each, i) => (i === pane ? (name ?? []) : each)) });
    },
  });
  const totals = h("div");
  const arrays = arrayList(source, (error) => frame.notify("error", (error as Error).message));
  const tabs = new Tabs(
    [
      { id: "totals", label: "Totals", panel: totals },
      { id: "plan", label: "Plan: why, and its arrays", panel: arrays.root },
    ],
    "Numbers of the plans",
    disposer,
    () => requestAnimationFrame(() => revealWithin(frame.view, tabs.element)),
  );
  if (source.live) {
    frame.toolbar.append(...controls.parts);
    frame.more.append(...controls.more);
  } else
    frame.notify(
      "info",
      "A saved page: step, select and read the arrays here; open the notebook to change the batch.",
    );
  const caption = h("div", { class: "sg-heading" });
  frame.view.append(caption, bars.root, panes.root, tabs.element);

  const work = () => plans?.shown[focused]?.work ?? null;

  /** The notebook's selection, unless it is of a request that this batch lacks: nothing is dimmed then. */
  function chosen(): Selection {
    const { request } = selection.value;
    return request !== undefined && plans && request >= plans.lens.length ? {} : selection.value;
  }

  /** The selected request; of a CTA that was selected alone, the one that it works on. */
  function selectedRequest(): number | undefined {
    const shown = work();
    const { request } = chosen();
    if (request !== undefined || !shown) return request;
    return shown.request[locate(shown, chosen())[0] ?? -1];
  }

  function focusOn(pane: number): void {
    if (!plans?.shown[pane] || pane === focused) return;
    focused = pane;
    picked = -1;
    captionBars();
    panes.load(plans, focused);
    showArrays();
    if (timeline) transport.load(timeline.track); // its sentence is about the focused plan
  }

  function captionBars(): void {
    const pane = plans?.shown[focused]?.pane;
    const splits = pane && pane.error === undefined ? ` · ×n: into n splits by ${pane.title}` : "";
    caption.textContent = `KV tokens of each request${splits}`;
  }

  function pickUnit(unit: number): void {
    const shown = work();
    if (!shown) return;
    picked = unit;
    selection.set(selectionOf(shown, unit, selection.value), frame);
    draw.schedule();
  }

  function stepRequest(step: number): void {
    if (!plans) return;
    const from = chosen().request ?? (step > 0 ? -1 : plans.lens.length);
    const request = Math.max(0, Math.min(plans.lens.length - 1, from + step));
    selection.set({ request }, frame);
  }

  function stepUnit(step: number): void {
    const shown = work();
    const { request } = chosen();
    if (!shown) return;
    const mine = Array.from({ length: shown.size }, (_, i) => i)
      .filter((i) => request === undefined || shown.request[i] === request)
      .sort((a, b) => (shown.start[a] as number) - (shown.start[b] as number) || a - b);
    const from = mine.indexOf(picked);
    // the first step goes to the unit that is outlined already
    const here = from < 0 ? mine.indexOf(locate(shown, chosen())[0] ?? -1) : -1;
    const next = here >= 0 ? mine[here] : mine[Math.max(0, Math.min(mine.length - 1, from + step))];
    if (next !== undefined) pickUnit(next);
  }

  function scaleLength(factor: number): void {
    const { request } = chosen();
    if (request !== undefined && plans) setLength(request, (plans.lens[request] as number) * factor);
  }

  function showArrays(): void {
    const pane = plans?.shown[focused]?.pane;
    if (!plans || !pane) return;
    if (pane.error === undefined) arrays.show(pane, plans.lens.length);
    else arrays.refused(pane);
  }

  function showDetails(): void {
    const shown = plans?.shown[focused];
    const request = selectedRequest();
    frame.details.replaceChildren(h("p", { class: "skv-note" }, HINT));
    if (!plans || !shown?.work || request === undefined || request >= plans.lens.length) return;
    const length = plans.lens[request] as number;
    frame.details.replaceChildren(
      definitions(`Request ${nameOf(plans, request)}`, requestRows(shown.pane, shown.work, request, length)),
    );
    const unit = picked >= 0 ? picked : locate(shown.work, chosen())[0];
    if (unit !== undefined)
      frame.details.append(definitions("Work unit", unitRows(shown.pane, shown.work, unit)));
  }

  const paintLengths = () => {
    if (!plans || frame.view.clientWidth === 0) return; // not laid out: `visible` draws it when it is
    const { request } = chosen();
    controls.show(plans, request);
    bars.show(plans, work(), request, theme(), frame.view.clientWidth);
  };
  const drawBars = framed(paintLengths);
  const draw = framed(() => {
    if (!plans || !timeline || frame.view.clientWidth === 0) return;
    drawBars.cancel();
    showDetails();
    paintLengths();
    panes.paint(theme(), timeline.momentOf(transport.position), chosen(), frame.room());
    const { dark } = theme();
    const legend = `${plans.lens.length} ${dark} ${plans.names.slice(0, NAMED)} ${plans.names.at(-1)}`;
    if (legend !== shownLegend) frame.setLegend(legendOf(plans, dark));
    shownLegend = legend;
  });
  disposer.add(() => {
    draw.cancel();
    drawBars.cancel();
    clearTimeout(arraysTimer);
  });

  /** `ahead`: the lengths that Python hears of next. */
  function show(next: Plans, ahead?: number[]): void {
    const first = plans === undefined;
    const atEnd = first || transport.position === transport.track.length;
    const before = plans?.shown[focused]?.pane.name;
    const same = next.shown.findIndex(({ pane }) => pane.name === before);
    plans = next;
    planned = next.lens.slice();
    if (ahead?.length === next.lens.length) next.lens.set(ahead);
    focused = same >= 0 ? same : Math.min(focused, next.shown.length - 1);
    picked = -1;
    timeline = timelineOf(
      next,
      () => chosen().request,
      () => focused,
    );
    frame.setHeader(source.get("header"));
    frame.setPlaceholder(null);
    captionBars();
    panes.load(next, focused);
    totals.replaceChildren(totalsTable(next), h("p", { class: "skv-note" }, caution(next)));
    clearTimeout(arraysTimer);
    if (first) showArrays();
    else arraysTimer = setTimeout(showArrays, ARRAYS_AFTER_MS); // not between two steps of a drag
    const kept = first && !source.live ? source.get("place")?.position : undefined;
    transport.load(timeline.track, kept ?? (atEnd ? timeline.track.length : transport.position));
    if (first) transport.setGranularity("round");
    opened = true;
    moved();
    draw.now();
  }

  async function reload(): Promise<void> {
    try {
      const read = await readPlans(source);
      if (!asker.busy) show(read);
    } catch (error) {
      frame.setPlaceholder(failure(source, error));
    }
  }

  const moved = keepPlace(
    { live: source.live, connection: () => source.connection },
    disposer,
    () => (transport.position < transport.track.length ? { position: transport.position } : {}),
    (place) => source.set("place", place),
  );
  disposer.add(
    transport.changed.on(() => {
      if (opened) moved();
      draw.schedule();
    }),
  );
  const inSight = whenInSight(frame.root, disposer);
  disposer.add(
    selection.on((value, origin) => {
      if (origin !== frame || value.cta === undefined) picked = -1;
      inSight("selection", () => {
        arrays.highlight(selection.value.request);
        draw.schedule();
      });
    }),
  );
  const resized = new ResizeObserver(() => draw.schedule());
  resized.observe(frame.view);
  // JupyterLab takes cells out of the page and puts them back
  const visible = new IntersectionObserver(() => draw.schedule());
  visible.observe(frame.view);
  disposer.add(() => {
    resized.disconnect();
    visible.disconnect();
  });
  source.onChange("revision", () =>
    asker.afterwards(() => {
      if (source.get("revision") !== knownRevision) void reload();
    }),
  );
  frame.setPlaceholder({ kind: "loading", text: "Reading the plans." });
  void reload();
}

function tourSteps(live: boolean): TourStep[] {
  return [
    { key: "Home", text: "to go to the beginning: nothing has run yet." },
    { key: "ArrowRight", text: "to let each SM do its first share; pale work is still to come." },
    { key: "End", text: "to run all of it: the dashed line is where the last CTA ends." },
    { key: "ArrowDown", text: "to select a request: its work stands out in every plan." },
    live
      ? { key: "+", text: "to lengthen the selected request by an eighth: every planner cuts again." }
      : { key: ".", text: "to go to the request's next work unit." },
  ];
}

/** The edit that takes `edit` back. */
function beforeEdit({ lens, shown, question }: Plans, edit: Edit): Edit {
  return {
    ...(edit.seq_lens && { seq_lens: Array.from(lens) }),
    ...(edit.planners && { planners: shown.map(({ pane }) => pane.name) }),
    ...(edit.question && { question: { ...question } }),
  };
}

const NAMED = 8; // requests in the legend

function legendOf(plans: Plans, dark: boolean): LegendItem[] {
  const { lens } = plans;
  const requests = Array.from({ length: Math.min(NAMED, lens.length) }, (_, i) => ({
    label: nameOf(plans, i),
    look: lookOf(i, dark),
  }));
  return [
    ...requests,
    ...(lens.length > NAMED ? [{ label: `… ${nameOf(plans, lens.length - 1)}` }] : []),
    { label: "every other split is paler, what has not begun palest" },
    { label: "no work", mark: legendMark("shade") },
    { label: "the last CTA ends", mark: legendMark("dashes") },
    { label: "now", mark: legendMark("cursor") },
  ];
}

export default defineWidget<typeof SPLIT_KV>({ name: "split_kv", version: 2, render });
