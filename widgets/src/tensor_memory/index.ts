// TensorMemory: 128 lanes × 512 columns of a CTA, or of a pair side by side: owner, liveness, values, last writer.

import "../memory/memory.css";
import "./tensor_memory.css";
import {
  type Context,
  defineWidget,
  framed,
  type Header,
  h,
  makeFrame,
  Transport,
  watchTheme,
} from "../core";
import type { Range } from "../memory/cividis";
import { mover } from "../memory/motion";
import { button, menu, switcher } from "../memory/parts";
import { FORMAT_LABELS, FORMATS, type Format } from "../memory/words";
import { CellImage, Cells, writtenMask } from "./cells";
import {
  addressText,
  COLUMNS,
  type Code,
  type FrameInfo,
  KINDS,
  type Launch,
  parseAddress,
  type Region,
  readMoments,
  readRegions,
  type Tile,
} from "./data";
import { type CellPlace, cellText, detailParts, type Looked } from "./details";
import { legendParts } from "./legend";
import { MODE_LABELS, MODES, type Mode } from "./looks";
import { type MapView, mapView } from "./map_view";
import type { Scene } from "./paint";
import { describe, eventsOf, granularitiesOf, timeAt } from "./track";
import { clamp, reveal, type Viewport, WHOLE, zoomAt } from "./viewport";
import type { Facts } from "./words";

const ZOOM_STEP = 0.25;
const HEIGHT = { narrow: 296, middle: 360, wide: 424 }; // 2, 2.5 or 3 px per lane below the column heads
const NO_RANGE: Range = { low: 0, high: 0 };

interface Shown {
  info: FrameInfo;
  /** Number of the frame: which rows of `cells` are its. */
  number: number;
  regions: Region[];
  written: Uint8Array[];
}

function render({ el, source, selection, disposer }: Context): void {
  const transport = new Transport();
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    onEscape: () => selection.set({}),
    keys: () => [
      { keys: ["+", "="], label: "zoom in", run: () => zoom(ZOOM_STEP) },
      { keys: ["-"], label: "zoom out", run: () => zoom(-ZOOM_STEP) },
      { keys: ["0"], label: "show everything", run: () => setViewport(WHOLE) },
      { keys: ["/"], label: "go to a cell", run: () => go.focus() },
      ...MODES.map((each, i) => ({
        keys: [String(i + 1)],
        label: `show ${MODE_LABELS[each]}`,
        run: () => setMode(each),
      })),
      { keys: ["Enter"], shown: "arrows, Enter", label: "in the map: walk to a cell, select it" },
    ],
  });
  const theme = watchTheme(frame.root, disposer, () => redraw());

  let facts: Facts | undefined;
  let shown: Shown | undefined;
  let mode: Mode = "owner";
  let format: Format = "f32";
  let viewport: Viewport = WHOLE;
  let cursor: CellPlace = { rank: 0, lane: 0, column: 0 };
  let selected: CellPlace | undefined;
  let tile = -1;
  let maps: MapView[] = [];
  let range = NO_RANGE;
  let rangeKey = "";

  const fail = (error: unknown) => frame.notify("error", (error as Error).message);
  const cells = new Cells(source, () => redraw(), fail);

  // Controls
  const modes = switcher(
    "Show",
    MODES.map((each) => [each, MODE_LABELS[each]] as const),
    (picked) => setMode(picked),
  );
  const formats = menu(
    "values as",
    FORMATS.map((each) => [each, FORMAT_LABELS[each]] as const),
    (picked) => {
      format = picked;
      redraw();
    },
  );
  const go = h("input", {
    class: "sg-field stm-go",
    type: "text",
    placeholder: "tmem[lane,col]",
    "aria-label": "Go to a cell: lane and column, or a raw address",
    spellcheck: "false",
  });
  disposer.listen(go, "keydown", (event) => {
    if (event.key === "Enter") goTo(go.value);
  });
  const clusters = h("select", { class: "sg-select", "aria-label": "CTAs" });
  disposer.listen(clusters, "change", () => {
    source.call("show_cluster", { cta: Number(clusters.value) }).catch(fail);
  });
  const clusterBox = h("label", { class: "smv-label" }, "CTAs ", clusters);
  frame.toolbar.append(
    modes.root,
    formats.root,
    button("−", "Zoom out (-)", () => zoom(-ZOOM_STEP)),
    button("+", "Zoom in (+)", () => zoom(ZOOM_STEP)),
    button("whole", "Show everything (0)", () => setViewport(WHOLE)),
    go,
    clusterBox,
  );
  const grid = h("div", { class: "stm-maps" });
  const legend = h("div", { class: "stm-legend" });
  frame.view.append(grid, legend);

  function setMode(next: Mode): void {
    mode = next;
    redraw();
  }

  function setViewport(next: Viewport): void {
    viewport = next;
    for (const map of maps) map.draw();
  }

  function zoom(by: number): void {
    const size = maps[0]?.plotSize();
    if (!size) return;
    const anchor = selected ?? cursor;
    const near = selected || frame.root.contains(document.activeElement?.closest(".stm-map") ?? null);
    const next = zoomAt(viewport, size, by, size.width / 2, size.height / 2);
    setViewport(near ? reveal(next, size, anchor.lane, anchor.column) : next);
  }

  function goTo(text: string): void {
    const place = parseAddress(text);
    if (!place) {
      frame.notify(
        "error",
        `“${text}” is no cell: write tmem[lane,column] with lanes to 127 and columns to 511.`,
      );
      return;
    }
    frame.clearNotice();
    const size = maps[0]?.plotSize();
    if (size) viewport = reveal({ ...viewport, zoom: 1 }, size, place.lane, place.column);
    select({ rank: selected?.rank ?? 0, ...place });
  }

  function select(place: CellPlace): void {
    cursor = place;
    const cta = facts?.launch.ctas[place.rank];
    selection.set({ ...selection.value, address: addressText(place.lane, place.column), cta }, frame);
  }

  const base = (rank: number) => ((shown?.number ?? 0) * (facts?.launch.ctas.length ?? 1) + rank) * COLUMNS;
  const word = (rank: number, lane: number, column: number) =>
    shown?.written[rank]?.[column * 128 + lane] ? cells.word(base(rank), lane, column) : undefined;

  function looked(): Looked | undefined {
    return facts && shown ? { facts, frame: shown.info, regions: shown.regions, word } : undefined;
  }

  function touchedBy(rank: number): number[][] {
    if (!facts || !shown || shown.info.moment === 0) return [];
    const last = shown.info.moment - 1;
    const place = Array.from(facts.moments.place.subarray(last * 4, last * 4 + 4));
    if (!place[1]) return [];
    const owner = facts.tiles[facts.moments.tile[last] as number];
    if (owner && KINDS[facts.moments.kind[last] as number] === "mma")
      return owner.blocks.filter((block) => block[0] === rank).map((block) => block.slice(1, 5));
    return facts.moments.cta[last] === facts.launch.ctas[rank] ? [place] : [];
  }

  function scene(rank: number): Scene | undefined {
    if (!facts || !shown) return undefined;
    const written = shown.written[rank] as Uint8Array;
    const key = `${source.get<number>("revision")} ${shown.number}`;
    return {
      facts,
      theme: theme(),
      rank,
      mode,
      format,
      range,
      regions: shown.regions,
      allocations: shown.info.allocations[rank] ?? [],
      written,
      image: mode === "values" ? images[rank]?.of(key, base(rank), written, format, range) : undefined,
      word: (lane, column) => word(rank, lane, column),
      viewport,
      touched: touchedBy(rank),
      selected: selected?.rank === rank ? selected : undefined,
      cursor: undefined,
      selectedTile: facts.tiles[tile],
    };
  }
  let images: CellImage[] = [];

  function measureRange(): void {
    if (!shown || !facts || mode !== "values") return;
    const key = `${source.get<number>("revision")} ${shown.number} ${format} ${cells.arrivals}`;
    if (key === rangeKey) return;
    rangeKey = key;
    range = cells.range(
      facts.launch.ctas.map((_, rank) => base(rank)),
      shown.written,
      format,
    );
  }

  const redrawFrame = framed(() => {
    modes.show(mode);
    formats.show(format);
    measureRange();
    for (const map of maps) map.draw();
    const now = looked();
    if (!now) return;
    const dark = theme().dark;
    frame.details.replaceChildren(
      ...detailParts(now, selected, tile, dark, (id) => {
        tile = tile === id ? -1 : id;
        redraw();
      }),
    );
    legend.replaceChildren(...legendParts(now.facts, mode, now.regions, format, range, dark));
  });
  const redraw = () => redrawFrame.schedule();
  disposer.add(() => redrawFrame.cancel());

  function makeMaps(launch: Launch): void {
    grid.replaceChildren();
    images = launch.ctas.map(() => new CellImage(cells));
    maps = launch.ctas.map((cta, rank) => {
      const map = mapView(
        {
          label: `Tensor memory of CTA ${cta}: 128 lanes by 512 columns. Arrow keys walk, Enter selects, + and - zoom.`,
          scene: () => scene(rank),
          viewport: () => viewport,
          setViewport,
          hover: (cell, x, y) => {
            const now = cell && looked();
            frame.tooltip.show(now && cell ? cellText(now, { rank, ...cell }, format) : undefined, x, y);
          },
          select: (cell) => select({ rank, ...cell }),
          moveCursor: (cell) => {
            cursor = { rank, ...cell };
            viewport = reveal(viewport, map.plotSize(), cell.lane, cell.column);
            for (const each of maps) each.draw();
            const now = looked();
            const text = now ? cellText(now, cursor, format) : "";
            const { x, y } = map.clientPoint(cell);
            frame.tooltip.show(text, x, y);
            return text;
          },
          cursor: () => ({ lane: cursor.lane, column: cursor.column }),
        },
        disposer,
      );
      const title = h(
        "div",
        { class: "stm-map-title" },
        h("strong", {}, `CTA ${cta}`),
        launch.ctas.length > 1 ? (rank === 0 ? "even CTA of the pair" : "odd CTA of the pair") : "",
      );
      grid.append(h("div", {}, title, map.root));
      return map;
    });
    resize();
  }

  function resize(): void {
    const width = frame.view.clientWidth;
    const height = width > 1100 ? HEIGHT.wide : width > 860 ? HEIGHT.middle : HEIGHT.narrow;
    for (const map of maps) map.setHeight(height);
    const size = maps[0]?.plotSize();
    if (size) viewport = clamp(viewport, size);
  }
  const resized = new ResizeObserver(resize);
  resized.observe(frame.view);
  disposer.add(() => resized.disconnect());

  function showClusters(launch: Launch): void {
    clusterBox.hidden = launch.clusters.length < 2 || !source.live;
    clusters.replaceChildren(
      ...launch.clusters.map((ctas) => h("option", { value: ctas[0] as number }, ctas.join(" and "))),
    );
    clusters.value = String(launch.ctas[0]);
  }

  // Frames: the session's moment, or those that were saved
  async function showFrame(number: number): Promise<void> {
    const info = source.get<FrameInfo[]>("frames")[number];
    if (!info || !facts) return;
    const regions = await readRegions(source, info);
    const written = facts.launch.ctas.map((_, rank) => writtenMask(regions, rank));
    shown = { info, number, regions, written };
    redraw();
  }

  let factsKey = "";
  let drawn = Promise.resolve();

  async function load(): Promise<void> {
    const launch = source.get<Launch>("launch");
    frame.setHeader(source.get<Header>("header"));
    if (launch.empty) {
      frame.setPlaceholder({
        kind: "empty",
        text: launch.empty,
        remedy: "SharedMemory shows this launch's other memory.",
      });
      transport.load({ length: 0, granularities: [{ id: "event", label: "event" }], describe: () => "" });
      return;
    }
    const key = source.get<string>("launch_key");
    if (key !== factsKey) {
      facts = {
        launch,
        moments: await readMoments(source),
        code: source.get<Record<string, Code>>("code"),
        tiles: source.get<Tile[]>("tiles"),
      };
      const remake = key.split("/")[0] !== factsKey.split("/")[0] || !maps.length;
      factsKey = key;
      if (remake || maps.length !== launch.ctas.length) makeMaps(launch);
      showClusters(launch);
      loadTrack();
    }
    frame.setPlaceholder(null);
    if (source.live) {
      await showFrame(0);
      const moment = source.get<FrameInfo[]>("frames")[0]?.moment ?? 0;
      if (!transport.moving && moment !== transport.position) transport.load(transport.track, moment);
    } else await showFrame(transport.position);
  }

  function loadTrack(): void {
    if (!facts) return;
    const known = facts;
    if (!source.live) {
      const frames = source.get<FrameInfo[]>("frames");
      transport.load({
        length: frames.length - 1,
        granularities: [{ id: "moment", label: "recorded moment" }],
        describe: (at) => describe(known, frames[at]?.moment ?? 0),
        time: (at) =>
          `${timeAt(known, frames[at]?.moment ?? 0)}, event ${frames[at]?.moment ?? 0} of ${known.moments.length}`,
      });
      return;
    }
    const granularities = granularitiesOf(known);
    const marks = Array.from(granularities.find(({ id }) => id === "commit")?.stops ?? [], (at) => ({
      at,
      label: "tcgen05.commit",
    }));
    const events = () => eventsOf(known, selected);
    const length = known.moments.length;
    const moment = source.get<FrameInfo[]>("frames")[0]?.moment ?? 0;
    transport.load(
      {
        length,
        granularities,
        marks,
        describe: (at) => describe(known, at),
        time: (at) => timeAt(known, at),
        eventsOfSelection: events,
        move: mover(
          () => transport.position,
          length,
          granularities,
          events,
          async (target) => {
            await source.call("go", { moment: target });
            await drawn;
          },
        ),
      },
      moment,
    );
  }

  function announce(): void {
    if (!facts || !shown || shown.info.moment === 0) return;
    const last = shown.info.moment - 1;
    selection.set({ ...selection.value, moment: facts.moments.position[last] as number }, frame);
  }

  const reload = () => {
    drawn = load().catch((error: unknown) => {
      frame.setPlaceholder({ kind: "error", text: (error as Error).message, remedy: "Run the cell again." });
    });
  };
  source.onChange("revision", reload);
  source.onChange("stale", () => {
    if (source.live) source.call("catch_up").catch(fail);
  });
  disposer.add(transport.failed.on(fail));
  disposer.add(
    transport.changed.on(() => {
      if (source.live) {
        if (!transport.moving) announce();
      } else void showFrame(transport.position).then(announce);
    }),
  );

  /** Another widget chose a moment: the last of ours that had happened by then. */
  function follow(event: number): void {
    if (!facts || transport.moving) return;
    const { position } = facts.moments;
    let moment = 0;
    while (moment < facts.moments.length && (position[moment] as number) <= event) moment += 1;
    if (source.live) transport.goTo(moment);
    else {
      const frames = source.get<FrameInfo[]>("frames");
      const at = frames.findLastIndex((each) => each.moment <= moment);
      transport.goTo(Math.max(0, at));
    }
  }

  disposer.add(
    selection.on((value, origin) => {
      const place = value.address?.startsWith("tmem") ? parseAddress(value.address) : undefined;
      const rank = value.cta === undefined ? 0 : (facts?.launch.ctas.indexOf(value.cta) ?? 0);
      selected = place && rank >= 0 ? { rank, ...place } : undefined;
      if (selected) cursor = selected;
      if (origin !== frame && value.moment !== undefined) follow(value.moment);
      redraw();
    }),
  );
  frame.setHeader(source.get<Header>("header"));
  frame.setPlaceholder({ kind: "loading", text: "Reading tensor memory." });
  reload();
}

export default defineWidget({ name: "tensor_memory", version: 1, render });
