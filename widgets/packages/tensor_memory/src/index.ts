// TensorMemory: 128 lanes × 512 columns of a CTA, or of a pair side by side: owner, liveness, values, last writer.

import type { Launch, TENSOR_MEMORY } from "./protocol";
import "@sglab/memory/memory.css";
import "./tensor_memory.css";
import {
  type Context,
  defineWidget,
  framed,
  h,
  makeFrame,
  replaceChanged,
  type TourStep,
  Transport,
  watchTheme,
} from "@sglab/core";
import { followSession } from "@sglab/memory/following";
import { showDetails } from "@sglab/memory/parts";
import { Cells, type Ranges, writtenMask } from "./cells";
import { makeControls, ZOOM_STEP } from "./controls";
import { addressText, parseAddress, readMoments, readRegions } from "./data";
import { type CellPlace, detailParts } from "./details";
import { legendParts } from "./legend";
import { MODE_LABELS, MODES, type Mode } from "./looks";
import { type Reading, type Reads, readsOf } from "./reading";
import { baseOf, lookedAt, makeStage, type Shown, type StageState } from "./stage";
import { describe, eventsOf, granularitiesOf } from "./track";
import type { Facts } from "./words";

const TOUR: TourStep[] = [
  { key: "ArrowRight", text: "to step to the next instruction that touches tensor memory." },
  { press: ".stm-map", text: "a cell of the map: who owns it, what it holds, who wrote it last." },
  { key: "Shift+ArrowRight", presses: 3, text: "three times, to what happens to that cell." },
  { key: "2", text: "to see values instead of owners; 3 shows what is still needed, 4 who wrote last." },
  { key: "1", text: "to see the owners again; + zooms in, 0 shows everything. ? lists all keys." },
];

function render({ el, source, selection, disposer }: Context<typeof TENSOR_MEMORY>): void {
  const transport = new Transport();
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    onEscape: () => selection.set({}),
    tour: { name: "tensor_memory", steps: TOUR },
    keys: () => [
      { keys: ["+", "="], label: "zoom in", run: () => stage.zoom(ZOOM_STEP) },
      { keys: ["-"], label: "zoom out", run: () => stage.zoom(-ZOOM_STEP) },
      { keys: ["0"], label: "show everything", run: () => stage.whole() },
      {
        keys: ["/"],
        label: "go to a cell",
        run: () => {
          frame.openMore();
          controls.focusAddress();
        },
      },
      ...MODES.map((each, i) => ({
        keys: [String(i + 1)],
        label: `show ${MODE_LABELS[each]}`,
        run: () => setMode(each),
      })),
      { keys: ["Enter"], shown: "arrows, Enter", label: "in the map: walk to a cell, select it" },
    ],
  });
  const theme = watchTheme(frame.root, disposer, () => redraw());
  const fail = (error: unknown) => frame.notify("error", (error as Error).message);

  let facts: Facts | undefined;
  let shown: Shown | undefined;
  let mode: Mode = "owner";
  let reading: Reading = "own";
  let ranges: Ranges = [];
  let rangeKey = "";
  let selected: CellPlace | undefined;
  let tile = -1;
  let seenSelection = "";

  const cells = new Cells(source, () => redraw(), fail);
  const state = (): StageState | undefined =>
    facts &&
    shown && {
      facts,
      shown,
      mode,
      reading,
      reads: reads(),
      ranges,
      selected,
      warp: selectedWarp(),
      tile,
    };
  const legend = h("div", { class: "stm-legend" });
  const stage = makeStage({
    state,
    cells,
    frame,
    theme,
    disposer,
    revision: () => source.get("revision"),
    select,
    legend,
  });
  const controls = makeControls(source, disposer, {
    setMode,
    setReading: (next) => {
      reading = next;
      redraw();
    },
    zoom: stage.zoom,
    whole: stage.whole,
    goTo,
    failed: fail,
  });
  frame.toolbar.append(...controls.parts);
  frame.more.append(...controls.more);
  frame.view.append(stage.root, legend);

  function setMode(next: Mode): void {
    if (next === "values" && facts?.launch.values === false) return;
    mode = next;
    redraw();
  }

  function goTo(text: string): void {
    const place = parseAddress(text);
    if (!place) {
      const form =
        "write tmem[lane,column] with lanes to 127 and columns to 511, or a raw address such as 0x00050003.";
      frame.notify("error", `“${text}” is no cell: ${form}`);
      return;
    }
    frame.clearNotice();
    const found = { rank: selected?.rank ?? 0, ...place };
    stage.zoomTo(found);
    select(found);
  }

  function select(place: CellPlace): void {
    stage.setCursor(place);
    const cta = facts?.launch.ctas[place.rank];
    selection.set({ ...selection.value, address: addressText(place.lane, place.column), cta }, frame);
  }

  function selectedWarp(): { rank: number; warp: number } | undefined {
    const { cta, warp } = selection.value;
    const rank = cta === undefined ? 0 : (facts?.launch.ctas.indexOf(cta) ?? -1);
    if (warp === undefined || rank < 0 || warp >= (facts?.launch.warpsPerCta ?? 0)) return undefined; // of another launch
    return { rank, warp };
  }

  /** Of each CTA shown; made again when the moment or the choice is another. */
  let known: { shown: Shown; reading: Reading; of: Reads } | undefined;
  function reads(): Reads {
    if (!facts || !shown) return { kinds: [], masks: [] };
    if (known?.shown !== shown || known.reading !== reading)
      known = { shown, reading, of: readsOf(facts, reading, shown.regions, facts.launch.ctas.length) };
    return known.of;
  }

  /** The range of colours follows the words of the whole moment. */
  function measureRange(now: StageState): void {
    const key = `${source.get("revision")} ${now.shown.number} ${reading} ${cells.arrivals}`;
    if (mode !== "values" || key === rangeKey) return;
    rangeKey = key;
    const bases = now.facts.launch.ctas.map((_, rank) => baseOf(now, rank));
    ranges = cells.ranges(bases, now.shown.written, now.reads);
  }

  const redrawFrame = framed(() => {
    controls.show(mode, reading);
    const now = state();
    if (!now) return;
    measureRange(now);
    stage.draw();
    const { dark } = theme();
    const pickTile = (id: number) => {
      tile = tile === id ? -1 : id;
      redraw();
    };
    showDetails(
      frame,
      detailParts(lookedAt(now, cells), selected, tile, dark, pickTile, select, (event) =>
        following.goToEvent(event),
      ),
    );
    replaceChanged(
      legend,
      legendParts(now.facts, mode, now.shown.regions, now.reads.kinds, ranges, dark, now.warp),
    );
  });
  const redraw = () => redrawFrame.schedule();
  disposer.add(() => redrawFrame.cancel());

  async function showFrame(): Promise<void> {
    const number = following.frame;
    const info = source.get("frames")[number];
    if (!info || !facts) return;
    const regions = await readRegions(source, info);
    shown = {
      info,
      number,
      regions,
      written: facts.launch.ctas.map((_, rank) => writtenMask(regions, rank)),
    };
    cells.follow();
    redraw();
  }

  let factsKey = "";

  async function load(): Promise<void> {
    const launch = source.get("launch");
    frame.setHeader(source.get("header"));
    controls.showWhether(!launch.empty);
    if (launch.empty) {
      frame.setFailure(launch.error);
      const remedy = "SharedMemory shows this launch's other memory, KernelDebugger its registers.";
      frame.setPlaceholder({ kind: "empty", text: launch.empty, remedy });
      transport.load({ length: 0, granularities: [{ id: "event", label: "event" }], describe: () => "" });
      return;
    }
    if (source.get("launch_key") !== factsKey) await loadLaunch(launch);
    frame.setPlaceholder(null);
    await showFrame();
  }

  async function loadLaunch(launch: Launch): Promise<void> {
    factsKey = source.get("launch_key");
    frame.setFailure(launch.error);
    const known: Facts = {
      launch,
      moments: await readMoments(source),
      code: source.get("code"),
      tiles: source.get("tiles"),
      elements: source.get("elements"),
    };
    facts = known;
    shown = undefined;
    tile = -1;
    stage.remake(launch);
    controls.showLaunch(launch);
    const granularities = granularitiesOf(known);
    const commits = granularities.find(({ id }) => id === "commit")?.stops ?? [];
    following.steps({
      moments: known.moments,
      granularities,
      marks: Array.from(commits, (at) => ({ at, label: "tcgen05.commit" })),
      describe: (position) => describe(known, position),
      eventsOfSelection: () => eventsOf(known, selected),
    });
  }

  const following = followSession({ source, selection, disposer, transport, frame, load, show: showFrame });
  disposer.add(
    selection.on((value) => {
      const place = value.address?.startsWith("tmem") ? parseAddress(value.address) : undefined;
      const rank = value.cta === undefined ? 0 : (facts?.launch.ctas.indexOf(value.cta) ?? 0);
      selected = place && rank >= 0 ? { rank, ...place } : undefined;
      if (selected) stage.setCursor(selected);
      const seen = JSON.stringify([selected, selectedWarp()]);
      if (seen !== seenSelection) redraw();
      seenSelection = seen;
    }),
  );
  frame.setHeader(source.get("header"));
  frame.setPlaceholder({ kind: "loading", text: "Reading tensor memory." });
  following.reload();
}

export default defineWidget<typeof TENSOR_MEMORY>({ name: "tensor_memory", version: 2, render });
