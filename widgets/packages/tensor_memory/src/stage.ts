// The maps of the CTAs shown, panned and zoomed together.

import { Disposer, type Frame, h, type Theme } from "@sglab/core";
import type { Format } from "@sglab/memory/words";
import { CellImage, type Cells, type Ranges } from "./cells";
import { COLUMNS, KINDS, LANES, type Region } from "./data";
import { type CellPlace, cellText, type Looked } from "./details";
import type { Mode } from "./looks";
import { type MapView, mapView } from "./map_view";
import type { FrameInfo, Launch } from "./protocol";
import type { Reading, Reads } from "./reading";
import type { Scene } from "./scene";
import { clamp, reveal, type Viewport, WHOLE, zoomAt } from "./viewport";
import type { Facts } from "./words";

const HEIGHT = { least: 296, most: 808 }; // 2 and 6 px per lane below the column heads
const BESIDE = 76; // px of the view beside the maps, at least: titles, legend
const AROUND = 24; // px: margins and borders

/** A moment as it is shown. */
export interface Shown {
  info: FrameInfo;
  /** Number of the frame: which rows of `cells` are its. */
  number: number;
  regions: Region[];
  written: Uint8Array[];
}

export interface StageState {
  facts: Facts;
  shown: Shown;
  mode: Mode;
  reading: Reading;
  reads: Reads;
  ranges: Ranges;
  selected: CellPlace | undefined;
  /** The selected warp's number, if it is one of a CTA shown. */
  warp: { rank: number; warp: number } | undefined;
  tile: number;
}

export interface StageOptions {
  state: () => StageState | undefined;
  cells: Cells;
  frame: Frame;
  theme: () => Theme;
  disposer: Disposer;
  /** Names what the cells belong to: changes with the data. */
  revision: () => number;
  select: (place: CellPlace) => void;
  /** What is below the maps. */
  legend: HTMLElement;
}

export interface Stage {
  readonly root: HTMLElement;
  /** Makes the maps for other CTAs. */
  remake(launch: Launch): void;
  draw(): void;
  zoom(by: number): void;
  whole(): void;
  /** Zooms to a cell, as large as cells get. */
  zoomTo(place: CellPlace): void;
  setCursor(place: CellPlace): void;
}

/** First row of a CTA's cells in the tensor. */
export function baseOf({ facts, shown }: Pick<StageState, "facts" | "shown">, rank: number): number {
  return (shown.number * facts.launch.ctas.length + rank) * COLUMNS;
}

/** The word of a cell that has been written and has arrived. */
export function wordOf(
  state: Pick<StageState, "facts" | "shown">,
  cells: Cells,
  { rank, lane, column }: CellPlace,
): number | undefined {
  if (!state.facts.launch.values || !state.shown.written[rank]?.[column * LANES + lane]) return undefined;
  return cells.word(baseOf(state, rank), lane, column);
}

export function lookedAt(state: Pick<StageState, "facts" | "shown">, cells: Cells): Looked {
  return {
    facts: state.facts,
    frame: state.shown.info,
    regions: state.shown.regions,
    word: (rank, lane, column) => wordOf(state, cells, { rank, lane, column }),
  };
}

/** What the last moment touched in a CTA: [lane, lanes, column, columns] each. */
function touchedBy({ facts, shown }: StageState, rank: number): number[][] {
  if (shown.info.moment === 0) return [];
  const { moments, tiles, launch } = facts;
  const last = shown.info.moment - 1;
  const place = Array.from(moments.place.subarray(last * 4, last * 4 + 4));
  if (!place[1]) return [];
  const owner = tiles[moments.tile[last] as number];
  if (owner && KINDS[moments.kind[last] as number] === "mma")
    return owner.blocks.filter((block) => block[0] === rank).map((block) => block.slice(1, 5));
  return moments.cta[last] === launch.ctas[rank] ? [place] : [];
}

function formatAt({ reads }: StageState, { rank, lane, column }: CellPlace): Format {
  return reads.kinds[reads.masks[rank]?.[column * LANES + lane] ?? 0]?.format ?? "hex";
}

/** Where there is something to see: what just happened, or what was written first. */
function firstWritten(now: StageState | undefined): { lane: number; column: number } | undefined {
  if (!now) return undefined;
  const [lane, , column] = now.facts.launch.ctas.flatMap((_, rank) => touchedBy(now, rank))[0] ?? [];
  if (lane !== undefined && column !== undefined) return { lane, column };
  return now.shown.regions.find(({ state }) => state > 0);
}

export function makeStage({
  state,
  cells,
  frame,
  theme,
  disposer,
  revision,
  select,
  legend,
}: StageOptions): Stage {
  const root = h("div", { class: "stm-maps" });
  let viewport: Viewport = WHOLE;
  /** What zooming by key or button keeps in sight, until the map is moved by hand. */
  let zoomedTo: { lane: number; column: number } | undefined;
  let cursor: CellPlace = { rank: 0, lane: 0, column: 0 };
  let maps: MapView[] = [];
  let images: CellImage[] = [];
  let mapsDisposer = new Disposer();
  disposer.add(() => mapsDisposer.dispose());

  const draw = () => {
    for (const map of maps) map.draw();
  };
  const setViewport = (next: Viewport) => {
    viewport = next;
    for (const map of maps) map.schedule();
  };

  function scene(rank: number): Scene | undefined {
    const now = state();
    if (!now) return undefined;
    const { facts, shown, mode, reading, reads, ranges, selected, tile, warp } = now;
    const written = shown.written[rank] as Uint8Array;
    const key = `${revision()} ${shown.number} ${reading}`;
    const image = images[rank];
    return {
      facts,
      theme: theme(),
      rank,
      mode,
      read: reads.masks[rank] as Uint8Array,
      kinds: reads.kinds,
      ranges,
      regions: shown.regions,
      allocations: shown.info.allocations[rank] ?? [],
      written,
      picture:
        mode === "values" ? image?.of(key, baseOf(now, rank), written, reads, rank, ranges) : undefined,
      words: (column) => cells.column(baseOf(now, rank), column),
      viewport,
      touched: touchedBy(now, rank),
      selected: selected?.rank === rank ? selected : undefined,
      quarter: warp?.rank === rank ? warp.warp % 4 : undefined,
      cursor: undefined,
      selectedTile: facts.tiles[tile],
    };
  }

  function textAt(place: CellPlace): string {
    const now = state();
    return now ? cellText(lookedAt(now, cells), place, formatAt(now, place)) : "";
  }

  function makeMap(cta: number, rank: number): MapView {
    const map: MapView = mapView(
      {
        label: `Tensor memory of CTA ${cta}: 128 lanes by 512 columns. Arrow keys walk, Enter selects, + and - zoom.`,
        scene: () => scene(rank),
        viewport: () => viewport,
        setViewport: (next) => {
          zoomedTo = undefined;
          setViewport(next);
        },
        hover: (cell, x, y) => frame.tooltip.show(cell && textAt({ rank, ...cell }), x, y),
        select: (cell) => select({ rank, ...cell }),
        moveCursor: (cell) => {
          cursor = { rank, ...cell };
          setViewport(reveal(viewport, map.plotSize(), cell.lane, cell.column));
          const text = textAt(cursor);
          const { x, y } = map.clientPoint(cell);
          frame.tooltip.show(text, x, y);
          return text;
        },
        cursor: () => ({ lane: cursor.lane, column: cursor.column }),
      },
      mapsDisposer,
    );
    return map;
  }

  function resize(): void {
    const titles = maps[0] ? maps[0].root.offsetTop - root.offsetTop : 0;
    const beside = Math.max(BESIDE, titles + legend.offsetHeight + AROUND);
    const height = Math.max(HEIGHT.least, Math.min(HEIGHT.most, frame.room() - beside));
    for (const map of maps) map.setHeight(height);
    const size = maps[0]?.plotSize();
    if (size) viewport = clamp(viewport, size);
  }
  const resized = new ResizeObserver(resize);
  resized.observe(frame.view);
  resized.observe(legend); // more matrices take more lines
  disposer.add(() => resized.disconnect());

  return {
    root,
    draw,
    remake(launch) {
      mapsDisposer.dispose();
      mapsDisposer = new Disposer();
      images = launch.ctas.map(() => new CellImage(cells));
      maps = launch.ctas.map(makeMap);
      root.replaceChildren(
        ...maps.map((map, rank) => {
          const place =
            launch.ctas.length > 1 ? (rank === 0 ? "even CTA of the pair" : "odd CTA of the pair") : "";
          const title = h(
            "div",
            { class: "stm-map-title" },
            h("strong", {}, `CTA ${launch.ctas[rank]}`),
            place,
          );
          return h("div", {}, title, map.root);
        }),
      );
      resize();
    },
    zoom(by) {
      const size = maps[0]?.plotSize();
      if (!size) return;
      const now = state();
      const walking = root.contains(document.activeElement) ? cursor : undefined;
      if (viewport.zoom === 0) zoomedTo = firstWritten(now);
      const anchor = now?.selected ?? walking ?? zoomedTo;
      const next = zoomAt(viewport, size, by, size.width / 2, size.height / 2);
      setViewport(anchor ? reveal(next, size, anchor.lane, anchor.column) : next);
    },
    whole: () => setViewport(WHOLE),
    zoomTo(place) {
      cursor = place;
      const size = maps[0]?.plotSize();
      if (size) setViewport(reveal({ ...viewport, zoom: 1 }, size, place.lane, place.column));
    },
    setCursor(place) {
      cursor = place;
    },
  };
}
