// The two sides of a tile: its bytes as they are in shared memory, and its logical rows; one colour per logical chunk.

import {
  type Cell,
  CellGrid,
  type Disposer,
  lookOf,
  type Rect,
  sharedPaint,
  type Theme,
  type Tooltip,
} from "@sglab/core";
import { colorOf, inkFor, type Range } from "@sglab/memory/cividis";
import { swizzlePeriod } from "@sglab/memory/swizzle";
import { LINE, smem, WRITTEN } from "./data";
import type { Layout, Piece } from "./layout";
import { cellNumber, type Held, hexWords } from "./words";

export interface Scene {
  layout: Layout;
  /** Pieces with a smaller turn are lit. */
  lit: number;
  selected: number | undefined;
  /** Whether what just happened touched a chunk. */
  touched: (address: number) => boolean;
  content: "places" | "values";
  /** Of the colours of an element type. */
  range: (element: string) => Range;
  bytes: (address: number) => ArrayLike<number> | undefined;
  /** The elements of a chunk that are known and were written. */
  values: (address: number) => Held[] | undefined;
  /** Mask of the bytes that have been written; undefined while it is not known. */
  written: (address: number) => number | undefined;
}

export interface GridOptions {
  /** Pixels of height that a grid may take. */
  room: () => number;
  theme: () => Theme;
  tooltip: Tooltip;
  scene: () => Scene;
  describe: (address: number) => string;
  select: (address: number) => void;
}

export interface Grids {
  bytes: CellGrid;
  logical: CellGrid;
  resize(): void;
  drawNow(): void;
  revealPiece(piece: Piece | undefined, address: number): void;
}

const ROW = 20;
const WIDEST = 104;
const CHUNKS_PER_LINE = LINE / 16;

/** Row (or k index) and 16-byte chunk of the matrix: "r12·c3". */
export function pieceName({ down }: Layout, { line, chunk }: Piece): string {
  return `${down[0]}${line}·c${chunk}`;
}

function text(
  context: CanvasRenderingContext2D,
  rect: Rect,
  label: string,
  align: CanvasTextAlign = "center",
): void {
  context.textAlign = align;
  const x = align === "center" ? rect.x + rect.width / 2 : rect.x + rect.width - 5;
  context.fillText(label, x, rect.y + rect.height / 2 + 0.5, rect.width - 4);
}

function paintPiece(
  context: CanvasRenderingContext2D,
  options: GridOptions,
  rect: Rect,
  piece: Piece,
  label: string,
): void {
  const { layout, lit, selected, content, range: rangeOf, values, bytes, written, touched } = options.scene();
  const theme = options.theme();
  const look = lookOf(piece.chunk % 8, theme.dark);
  const inner = { ...rect, x: rect.x + 0.5, y: rect.y + 0.5, width: rect.width - 1, height: rect.height - 1 };
  const mask = written(piece.address) ?? WRITTEN;
  const numbers = content === "values" && mask ? values(piece.address) : undefined;
  const range = rangeOf(numbers?.[0]?.element ?? "");
  const nans = numbers?.filter(({ value }) => Number.isNaN(value)).length ?? 0;
  const first = nans ? Number.NaN : numbers?.[0]?.value;
  const unknown = content === "values" && mask && !numbers ? bytes(piece.address) : undefined;
  const shown = piece.order < lit;
  context.globalAlpha = shown ? 1 : 0.22;
  if (content === "values" && (!mask || unknown)) context.fillStyle = theme.surface;
  else context.fillStyle = first === undefined ? look.fill : colorOf(first, range);
  context.fillRect(inner.x, inner.y, inner.width, inner.height);
  if (mask !== WRITTEN) hatch(context, inner, mask, content === "values" && !mask ? theme.muted : look.ink);
  if (piece.inside < 128 / layout.elementBits) {
    context.fillStyle = sharedPaint().empty(look.ink);
    context.fillRect(inner.x, inner.y, inner.width, inner.height);
  }
  context.globalAlpha = shown ? 1 : 0.5;
  context.fillStyle = !shown || unknown ? theme.text : first === undefined ? look.ink : inkFor(first, range);
  context.font = `11px ${theme.codeFont}`;
  if (unknown) text(context, rect, hexWords(unknown, 4).slice(0, 8));
  else if (content === "places" || numbers)
    text(context, rect, numbers ? valuesText(context, rect.width - 4, numbers, nans) : label);
  context.globalAlpha = 1;
  if (touched(piece.address)) {
    context.fillStyle = theme.text;
    context.fillRect(rect.x + 1, rect.y + rect.height - 3, rect.width - 2, 2);
  }
  if (piece.address === selected) outline(context, rect, theme);
}

/** Over the bytes that were never written. */
function hatch(context: CanvasRenderingContext2D, rect: Rect, mask: number, ink: string): void {
  const byte = rect.width / 16;
  const { globalAlpha } = context;
  context.globalAlpha = globalAlpha * 0.45; // what is written over it stays readable
  context.fillStyle = sharedPaint().empty(ink);
  for (let i = 0; i < 16; i++)
    if (!((mask >>> i) & 1)) context.fillRect(rect.x + i * byte, rect.y, byte + 0.3, rect.height);
  context.globalAlpha = globalAlpha;
}

/** The first two, or one where two have no room; of NaN, anywhere in the chunk, their number. */
function valuesText(
  context: CanvasRenderingContext2D,
  room: number,
  numbers: readonly Held[],
  nans: number,
): string {
  if (nans) return `${nans} NaN`;
  const [one = "", two = ""] = numbers.slice(0, 2).map((each) => cellNumber(each, numbers));
  const both = `${one} ${two}`;
  return context.measureText(both).width <= room ? both : one;
}

function outline(context: CanvasRenderingContext2D, rect: Rect, theme: Theme): void {
  for (const [color, width] of [
    [theme.background, 5],
    [theme.focus, 3],
  ] as const) {
    context.strokeStyle = color;
    context.lineWidth = width;
    context.strokeRect(rect.x + 1.5, rect.y + 1.5, rect.width - 3, rect.height - 3);
  }
}

export function makeGrids(options: GridOptions, disposer: Disposer): Grids {
  const { theme, tooltip, scene } = options;
  const addressAt = ({ row, column }: Cell) => scene().layout.start + row * LINE + column * 16;
  let places = new Map<number, Piece>();
  let known: Layout | undefined;
  const pieceAt = ({ row, column }: Cell): Piece | undefined => {
    const { layout } = scene();
    if (layout !== known) {
      known = layout;
      places = new Map(layout.pieces.map((piece) => [piece.line * layout.chunks + piece.chunk, piece]));
    }
    return places.get(row * layout.chunks + column);
  };
  const label = (context: CanvasRenderingContext2D) => {
    context.font = `11px ${theme().codeFont}`;
    context.fillStyle = theme().muted;
  };
  /** Two lines of a column's label, or in the corner what they mean. */
  const head = (
    context: CanvasRenderingContext2D,
    rect: Rect,
    [upper, lower]: [string, string],
    align?: CanvasTextAlign,
  ) => {
    label(context);
    text(context, { ...rect, height: 17 }, upper, align);
    text(context, { ...rect, y: 15, height: 17 }, lower, align);
  };

  const bytes: CellGrid = new CellGrid(
    {
      label: "The tile's bytes in shared memory: lines of 128 bytes, in 8 chunks of 16 bytes",
      theme,
      tooltip,
      resized: () => resize(),
      paint(context, cell, rect) {
        const address = addressAt(cell);
        const { layout, selected } = scene();
        const piece = layout.byAddress.get(address);
        if (piece) paintPiece(context, options, rect, piece, pieceName(layout, piece));
        else {
          context.fillStyle = theme().surface;
          context.fillRect(rect.x + 0.5, rect.y + 0.5, rect.width - 1, rect.height - 1);
          if (address === selected) outline(context, rect, theme());
        }
        // Where the swizzle's pattern begins again.
        if (layout.swizzle === "none" || (address - layout.origin) % swizzlePeriod(layout.swizzle) >= LINE)
          return;
        context.fillStyle = theme().text;
        context.fillRect(rect.x, rect.y - 0.5, rect.width, 1.5);
      },
      paintRowHeader(context, row, rect) {
        label(context);
        if (scene().layout.pieces.length)
          text(context, rect, `0x${(scene().layout.start + row * LINE).toString(16)}`, "right");
      },
      paintColumnHeader(context, column, rect) {
        head(context, rect, [`+${column * 16}`, `${column * 4}–${column * 4 + 3}`]);
      },
      paintCorner: (context, rect) => head(context, rect, ["byte", "banks"], "right"),
      describe: (cell) => options.describe(addressAt(cell)),
      select: (cell) => options.select(addressAt(cell)),
    },
    disposer,
  );
  const logical: CellGrid = new CellGrid(
    {
      label: "The same tile by logical coordinates: a row of the matrix per line, 16 bytes per cell",
      theme,
      tooltip,
      resized: () => resize(),
      paint(context, cell, rect) {
        const piece = pieceAt(cell);
        if (piece) paintPiece(context, options, rect, piece, `0x${piece.address.toString(16)}`);
      },
      paintRowHeader(context, row, rect) {
        label(context);
        if (scene().layout.pieces.length) text(context, rect, `${scene().layout.down} ${row}`, "right");
      },
      paintColumnHeader(context, column, rect) {
        const per = 128 / scene().layout.elementBits;
        head(context, rect, [`c${column}`, `${column * per}–${column * per + per - 1}`]);
      },
      paintCorner: (context, rect) => head(context, rect, ["chunk", scene().layout.across], "right"),
      describe: (cell) => {
        const piece = pieceAt(cell);
        return piece && options.describe(piece.address);
      },
      select: (cell) => {
        const piece = pieceAt(cell);
        if (piece) options.select(piece.address);
      },
    },
    disposer,
  );

  const width = (grid: CellGrid, header: number, columns: number) => {
    const room = (grid.width || 400) - header - 18;
    return Math.max(44, Math.min(WIDEST, Math.floor(room / Math.max(1, columns))));
  };
  function resize(): void {
    const { layout } = scene();
    // What is refused leaves the room as it was: the field that is being edited stays in its place.
    if (!layout.pieces.length && bytes.geometry.rows) {
      bytes.redraw();
      logical.redraw();
      return;
    }
    bytes.setGeometry({
      rows: Math.max(0, layout.end - layout.start) / LINE,
      columns: layout.pieces.length ? CHUNKS_PER_LINE : 0,
      cellWidth: width(bytes, 66, CHUNKS_PER_LINE),
      cellHeight: ROW,
      headerWidth: 66,
      headerHeight: 34,
      maxHeight: options.room(),
    });
    logical.setGeometry({
      rows: layout.lines,
      columns: layout.chunks,
      cellWidth: width(logical, 56, layout.chunks),
      cellHeight: ROW,
      headerWidth: 56,
      headerHeight: 34,
      maxHeight: options.room(),
    });
  }

  return {
    bytes,
    logical,
    resize,
    drawNow() {
      bytes.drawNow();
      logical.drawNow();
    },
    revealPiece(piece, address) {
      const { start } = scene().layout;
      bytes.reveal({ row: Math.floor((address - start) / LINE), column: ((address % LINE) / 16) | 0 });
      if (piece) logical.reveal({ row: piece.line, column: piece.chunk });
    },
  };
}

export function gridTitle(layout: Layout): string {
  return layout.pieces.length ? `${smem(layout.start)} to ${smem(layout.end)}` : "";
}
