// The two sides of a tile, coordinates and places, and the banks of one access; one colour per lane or chunk.

import { type Cell, CellGrid, type Disposer, lookOf, type Rect, type Theme, type Tooltip } from "@sglab/core";
import { BANKS } from "@sglab/memory/banks";
import type { Tile } from "./model";
import { type Line, labelsOf, reachOf } from "./reach";
import { cellLabels, elementText, type Label, ranges } from "./words";

export interface Scene {
  tile: Tile;
  /** Groups below are lit; the last of them is the one that just happened. */
  lit: number;
  selected: number | undefined;
  label: Label;
  /** Lanes in the selected element's way, and the access they are in. */
  against: ReadonlySet<number>;
}

export interface GridOptions {
  room: () => number;
  theme: () => Theme;
  tooltip: Tooltip;
  scene: () => Scene | undefined;
  select: (element: number) => void;
}

export interface Grids {
  tile: CellGrid;
  places: CellGrid;
  banks: CellGrid;
  resize(): void;
  drawNow(): void;
  reveal(element: number): void;
}

const ROW = 19;
const HEAD = 20;
const NARROWEST = 10;
const LEAST = 5; // where what a lane takes is still wide enough for a label
const LANE_LABEL = 34;
const BANK_HEIGHT = 17;
const TOGETHER = 30; // px: narrower cells of one lane have one label

const SIZES = [11, 9]; // px of the code font: the smaller one where a number of one more digit has no room otherwise
const WIDTH = 0.61; // of a character, in sizes
const CHARACTER = 6.7; // px of one in the larger size

/** The first of the labels that has room, in the largest size that gives it room. */
function fitting(width: number, labels: readonly string[]): { label: string; size: number } | undefined {
  for (const size of SIZES) {
    const label = labels.find((each) => WIDTH * size * each.length <= width - 2);
    if (label !== undefined) return { label, size };
  }
  return undefined;
}

/** Writes the first of the labels that has room. */
function write(
  context: CanvasRenderingContext2D,
  rect: Rect,
  labels: readonly string[],
  align: CanvasTextAlign = "center",
): void {
  const found = fitting(rect.width, labels);
  if (!found) return;
  if (found.size !== SIZES[0]) context.font = context.font.replace(/[\d.]+px/, `${found.size}px`);
  context.textAlign = align;
  const x = align === "center" ? rect.x + rect.width / 2 : rect.x + rect.width - 5;
  context.fillText(found.label, x, rect.y + rect.height / 2 + 0.5);
}

/** Colours repeat what the labels say: the 16-byte chunk of the line, or the lane. */
function hueOf(tile: Tile, i: number): number {
  return tile.shown.space === "smem" ? Math.floor((tile.byte(i) % 128) / 16) : (tile.lane[i] as number) % 8;
}

function paintElement(
  context: CanvasRenderingContext2D,
  theme: Theme,
  scene: Scene,
  rect: Rect,
  column: number,
  i: number,
  line: Line,
): void {
  const { tile, lit, selected, against } = scene;
  const { fill, ink } = lookOf(hueOf(tile, i), theme.dark);
  const group = tile.group[i] as number;
  const shown = group < lit;
  const reach = reachOf(tile, i, column, line);
  const gap = rect.width > 14 ? 0.5 : 0.25;
  context.globalAlpha = shown ? 1 : 0.2;
  context.fillStyle = fill;
  context.fillRect(rect.x + gap, rect.y + 0.5, rect.width - 2 * gap, rect.height - 1);
  context.globalAlpha = 1;
  context.fillStyle = shown ? ink : theme.text;
  context.font = `11px ${theme.codeFont}`;
  const together = reach.last > reach.first && rect.width < TOGETHER;
  if (!together && fitting(rect.width, line.labels(i))) write(context, rect, line.labels(i));
  else if (column === reach.last && together) {
    // too narrow for every element: once for all that a lane takes
    const width = (reach.last - reach.first + 1) * rect.width;
    const labels = labelsOf(reach, line, tile.shown.space === "smem");
    write(context, { ...rect, x: rect.x + rect.width - width, width }, labels);
  }
  if (group === lit - 1) {
    context.fillStyle = shown ? ink : theme.text;
    context.fillRect(rect.x + 1, rect.y + rect.height - 3, rect.width - 2, 2);
  }
  const inWay =
    selected !== undefined && group === tile.group[selected] && against.has(tile.lane[i] as number);
  if (inWay && tile.phase[i] === tile.phase[selected])
    frameOf(context, rect, theme.error, column === reach.first, column === reach.last);
  if (i === selected) {
    outline(context, rect, theme.background, 5);
    outline(context, rect, theme.focus, 3);
  }
}

/** A frame around neighbouring cells: this one's part of it. */
function frameOf(
  context: CanvasRenderingContext2D,
  { x, y, width, height }: Rect,
  color: string,
  left: boolean,
  right: boolean,
): void {
  context.fillStyle = color;
  context.fillRect(x, y + 0.5, width, 2);
  context.fillRect(x, y + height - 2.5, width, 2);
  if (left) context.fillRect(x, y, 2, height);
  if (right) context.fillRect(x + width - 2, y, 2, height);
}

function outline(context: CanvasRenderingContext2D, rect: Rect, color: string, width: number): void {
  context.strokeStyle = color;
  context.lineWidth = width;
  context.strokeRect(rect.x + 1.5, rect.y + 1.5, rect.width - 3, rect.height - 3);
}

export function makeGrids(options: GridOptions, disposer: Disposer): Grids {
  const { theme, tooltip, scene } = options;
  const header = (context: CanvasRenderingContext2D, rect: Rect, text: string, align?: CanvasTextAlign) => {
    context.font = `11px ${theme().codeFont}`;
    context.fillStyle = theme().muted;
    write(context, rect, [text], align);
  };
  const elementAt = ({ row, column }: Cell) => {
    const shown = scene()?.tile.shown;
    return shown ? row * shown.columns + column : -1;
  };
  const placedAt = ({ row, column }: Cell): number | undefined => {
    const now = scene();
    return now?.tile.at(row * now.tile.shown.placeColumns + column)[0];
  };
  /** Numbers of narrow columns stand only at every second, fourth, … */
  const sparse = (number: number, width: number, last: number) => {
    let every = 1;
    while (every * width < CHARACTER * (String(last).length + 1) + 2) every *= 2;
    return number % every === 0;
  };
  const wide = (rect: Rect, text: string): Rect => ({
    ...rect,
    width: Math.max(rect.width, 7 * text.length + 3),
  });

  const tile = new CellGrid(
    {
      label: "The tile by coordinates",
      theme,
      tooltip,
      resized: () => resize(),
      paint(context, cell, rect) {
        const now = scene();
        if (!now) return;
        const line: Line = {
          at: (column) => elementAt({ row: cell.row, column }),
          labels: (each) => cellLabels(now.tile, each, now.label),
          columns: now.tile.shown.columns,
        };
        paintElement(context, theme(), now, rect, cell.column, elementAt(cell), line);
      },
      paintRowHeader: (context, row, rect) => header(context, rect, String(row), "right"),
      paintColumnHeader(context, column, rect) {
        const text = String(column);
        if (sparse(column, rect.width, scene()?.tile.shown.columns ?? 0))
          header(context, wide(rect, text), text);
      },
      describe: (cell) => {
        const now = scene();
        return now && elementText(now.tile, elementAt(cell));
      },
      select: (cell) => options.select(elementAt(cell)),
    },
    disposer,
  );
  const places = new CellGrid(
    {
      label: "The same elements by place",
      theme,
      tooltip,
      paint(context, cell, rect) {
        const now = scene();
        const i = placedAt(cell);
        if (!now) return;
        if (i === undefined) {
          context.fillStyle = theme().surface;
          context.fillRect(rect.x + 0.5, rect.y + 0.5, rect.width - 1, rect.height - 1);
          return;
        }
        // of several coordinates of one place, the selected one
        const all = now.tile.at(now.tile.place[i] as number);
        const first = now.selected !== undefined && all.includes(now.selected) ? now.selected : i;
        const line: Line = {
          at: (column) => placedAt({ row: cell.row, column }),
          labels: (each) => [`${now.tile.row(each)},${now.tile.column(each)}`],
          columns: now.tile.shown.placeColumns,
        };
        paintElement(context, theme(), now, rect, cell.column, first, line);
      },
      paintRowHeader(context, row, rect) {
        const space = scene()?.tile.shown.space;
        header(context, rect, space === "smem" ? `0x${(row * 128).toString(16)}` : String(row), "right");
      },
      paintColumnHeader(context, column, rect) {
        const shown = scene()?.tile.shown;
        if (!shown) return;
        const { space } = shown;
        const per = space === "smem" ? 32 / shown.elementBits : shown.parts;
        if (column % Math.max(1, per)) return;
        const number = space === "smem" ? Math.floor(column / per) : column / per;
        const text = `${space === "registers" ? "r" : ""}${number}`;
        const all = { ...rect, width: rect.width * Math.max(1, per) };
        const last = space === "registers" ? 100 : space === "smem" ? 31 : shown.placeColumns;
        if (sparse(number, all.width, last)) header(context, wide(all, text), text);
      },
      paintCorner(context, rect) {
        const names = { smem: "bank", tmem: "column", registers: "" };
        header(context, rect, names[scene()?.tile.shown.space ?? "smem"], "right");
      },
      describe: (cell) => {
        const [now, i] = [scene(), placedAt(cell)];
        return now && i !== undefined ? elementText(now.tile, i) : undefined;
      },
      select: (cell) => {
        const i = placedAt(cell);
        if (i !== undefined) options.select(i);
      },
    },
    disposer,
  );
  const use = () => {
    const now = scene();
    return now?.lit && now.tile.shown.space === "smem" ? now.tile.banksOf(now.lit - 1) : undefined;
  };
  const banks = new CellGrid(
    {
      label: "Banks of the access: words that each has to deliver, by phase",
      theme,
      tooltip,
      paint(context, { row, column }, rect) {
        const count = use()?.phases[row]?.banks[column]?.words.length ?? 0;
        const inner = { x: rect.x + 0.5, y: rect.y + 0.5, width: rect.width - 1, height: rect.height - 1 };
        context.fillStyle = theme().surface;
        if (count === 1) context.fillStyle = lookOf(1, theme().dark).fill;
        if (count > 1) context.fillStyle = lookOf(5, theme().dark).fill;
        context.fillRect(inner.x, inner.y, inner.width, inner.height);
        context.fillStyle = count ? "#000000" : theme().muted;
        context.font = `${count > 1 ? "bold " : ""}11px ${theme().codeFont}`;
        write(context, rect, [String(count)]);
      },
      paintRowHeader: (context, row, rect) => header(context, rect, `phase ${row + 1}`, "right"),
      describe({ row, column }) {
        const bank = use()?.phases[row]?.banks[column];
        if (!bank) return `bank ${column}: no access yet`;
        const lanes = bank.lanes.length
          ? `lanes ${ranges([...new Set(bank.lanes)].sort((a, b) => a - b))}`
          : "no lane";
        return `phase ${row + 1}, bank ${column}: ${bank.words.length} different words, for ${lanes}`;
      },
      select: () => {},
    },
    disposer,
  );

  function resize(): void {
    const now = scene();
    if (!now) return;
    const { rows, columns, placeRows, placeColumns, space, parts } = now.tile.shown;
    const room = options.room();
    const { takenBytes, elementBits } = now.tile.shown;
    const perLane = space === "smem" ? Math.max(1, (8 * takenBytes) / elementBits) : 1;
    const narrowest = Math.max(LEAST, Math.min(NARROWEST, Math.ceil(LANE_LABEL / perLane)));
    const fit = (grid: CellGrid, count: number, head: number, most: number) =>
      Math.max(
        narrowest,
        Math.min(most, Math.floor(((grid.element.clientWidth || 400) - head - 20) / count)),
      );
    const label = space === "smem" ? 46 : 60;
    tile.setGeometry({
      rows,
      columns,
      cellWidth: fit(tile, columns, 34, label),
      cellHeight: ROW,
      headerWidth: 34,
      headerHeight: HEAD,
      maxHeight: room,
    });
    places.setGeometry({
      rows: placeRows,
      columns: placeColumns,
      cellWidth: fit(places, placeColumns, 56, parts > 1 ? 44 : 52),
      cellHeight: ROW,
      headerWidth: 56,
      headerHeight: HEAD,
      maxHeight: room,
    });
    const phases =
      space === "smem" ? (now.tile.shown.takenBytes >= 16 ? 4 : now.tile.shown.takenBytes === 8 ? 2 : 1) : 0;
    banks.setGeometry({
      rows: phases,
      columns: BANKS,
      cellWidth: fit(banks, BANKS, 60, 26),
      cellHeight: BANK_HEIGHT,
      headerWidth: 60,
      headerHeight: 0,
      maxHeight: 4 * BANK_HEIGHT + 2,
    });
  }

  return {
    tile,
    places,
    banks,
    resize,
    drawNow() {
      tile.drawNow();
      places.drawNow();
      banks.drawNow();
    },
    reveal(element) {
      const now = scene();
      if (!now) return;
      tile.reveal({ row: now.tile.row(element), column: now.tile.column(element) });
      places.reveal({ row: now.tile.placeRow(element), column: now.tile.placeColumn(element) });
    },
  };
}
