// Queries × keys of one head: dense probabilities, or the same with what was not chosen faded and hatched.

import {
  type Cell,
  CellGrid,
  type Disposer,
  HATCHED_FROM,
  pixelRatio,
  type Rect,
  sharedPaint,
  type Theme,
  type Tooltip,
} from "@sglab/core";
import { choiceName, isChosen, isMissed, type Look, likely, probability, type Read, tokenName } from "./data";
import { shadeOf } from "./shades";

const HEADER = 20;
const SCROLLBAR = 16;
const WIDEST = 14;
const LEAST = 3; // px of a cell, where whole pixels do
const FINEST = 1; // where only that shows all of a map
const NAMED_FROM = 7; // px of a column
const NAME = 2; // letters
const LETTER = 5.5; // px
const ROWS_NAMED_FROM = 10; // a letter is higher than it is wide
const EVERY = [5, 10, 20, 50];
const APART = 24; // px between two positions
const WITH_EDGE = 6; // px of a cell: half of a smaller one would not be seen

/** The widest cells with which all of a map is seen, in whole pixels where they are not small; where there is no room for
 * the finest, cells that can be pressed, and scrolling. */
export function cellSize(tokens: number, width: number, height: number): number {
  const room = Math.min(width - HEADER - SCROLLBAR, height - HEADER);
  const size = room / tokens;
  if (size >= LEAST) return Math.min(WIDEST, Math.floor(size));
  return size >= FINEST ? size : LEAST;
}

/** The least height in which all of a map can be seen. */
export function leastHeight(tokens: number): number {
  return HEADER + Math.ceil(tokens * FINEST);
}

/** What a map takes of so much height. */
export function usedHeight(tokens: number, width: number, height: number): number {
  return Math.min(height, HEADER + Math.ceil(tokens * cellSize(tokens, width, height)));
}

/** All of a map without scrolling. */
export function wholeHeight(tokens: number, width: number): number {
  return HEADER + tokens * cellSize(tokens, width, Number.POSITIVE_INFINITY);
}

/** Whether names stand beside each other over columns: two letters are wider than a narrow one. */
function beside(texts: readonly string[], size: number): boolean {
  return size >= NAME * LETTER || texts.every((_, at) => tokenName(texts, at).length < NAME);
}

/** An id that is cut is another's. */
function cutIds(texts: readonly string[]): boolean {
  return texts.every((text) => /^\d+$/.test(text)) && texts.some((text) => text.length > NAME);
}

/** A token's name where its cell has room for one; else the position of every so many, for single letters would read as
 * a text that is not there. `own` always has its position, and none stands too near to it. */
export function labelOf(texts: readonly string[], at: number, size: number, own?: number): string {
  const named = own === undefined ? size >= NAMED_FROM && beside(texts, size) : size >= ROWS_NAMED_FROM;
  if (named && !cutIds(texts)) return tokenName(texts, at).slice(0, NAME);
  if (at === own) return String(at);
  const every = EVERY.find((step) => step * size >= APART) ?? APART;
  const near = own !== undefined && Math.abs(at - own) * size < APART;
  return at % every || near ? "" : String(at);
}

export class MapView {
  readonly grid: CellGrid;
  #read: Read | undefined;
  #drawn: { read: Read; theme: Theme; ratio: number; look: Look } | undefined;
  #look: Look = { rule: 0, step: 0, head: 0, query: 0 };

  constructor(
    private theme: () => Theme,
    tooltip: Tooltip,
    disposer: Disposer,
    private sparse: boolean,
    press: (query: number) => void,
  ) {
    this.grid = new CellGrid(
      {
        label: sparse ? "Chosen keys of each query" : "Dense probabilities of each query's keys",
        theme,
        tooltip,
        paint: (context, cell, rect) => this.#paint(context, cell, rect),
        paintRowHeader: (context, row, rect) => this.#label(context, row, rect, this.#look.query),
        paintColumnHeader: (context, column, rect) => this.#label(context, column, rect),
        describe: (cell) => this.#describe(cell),
        select: ({ row }) => press(row),
      },
      disposer,
    );
  }

  get scroller(): HTMLElement {
    return this.grid.element.querySelector(".sg-cells") as HTMLElement;
  }

  draw(read: Read, look: Look, width: number, height: number): void {
    const theme = this.theme();
    const drawn = this.#drawn;
    const ratio = pixelRatio(); // a picture that is saved asks for more
    const alike = drawn?.read === read && drawn.theme === theme && drawn.ratio === ratio;
    const asDrawn = alike && this.#looksAs(drawn.look, look);
    const moved = this.#look.query !== look.query;
    this.#read = read;
    this.#look = look;
    this.#drawn = { read, theme, ratio, look: { ...look } };
    const { tokens } = read.shown;
    const size = cellSize(tokens, width, height);
    const { geometry } = this.grid;
    const same = geometry.rows === tokens && geometry.cellWidth === size && geometry.maxHeight === height;
    if (same && asDrawn) return;
    if (same) this.grid.redraw();
    else
      this.grid.setGeometry({
        rows: tokens,
        columns: tokens,
        cellWidth: size,
        cellHeight: size,
        headerWidth: HEADER,
        headerHeight: HEADER,
        maxHeight: height,
      });
    // where a map scrolls, a query is seen with the keys before it; a press leaves what is in sight where it is
    if (!same || (moved && !this.#rowInSight(look.query, size)))
      this.grid.reveal({ row: look.query, column: look.query });
  }

  #rowInSight(row: number, size: number): boolean {
    const { scrollTop, clientHeight } = this.scroller;
    return row * size >= scrollTop && (row + 1) * size <= scrollTop + clientHeight - HEADER;
  }

  /** Whether the map is the same: what is dense knows neither rule nor budget. */
  #looksAs(one: Look, other: Look): boolean {
    const chosen = !this.sparse || (one.rule === other.rule && one.step === other.step);
    return chosen && one.head === other.head && one.query === other.query;
  }

  #paint(context: CanvasRenderingContext2D, { row, column }: Cell, { x, y, width, height }: Rect): void {
    const read = this.#read as Read;
    const look = this.#look;
    const theme = this.theme();
    if (column > row) return;
    const value = probability(read, look.head, row, column);
    const out = this.sparse && !isChosen(read, look, column, row);
    if (out) {
      context.fillStyle = theme.surface;
      context.fillRect(x, y, width, height);
      if (width >= HATCHED_FROM) {
        context.fillStyle = sharedPaint().empty(theme.muted);
        context.fillRect(x, y, width, height);
      }
      if (isMissed(value, false)) {
        context.fillStyle = theme.error; // what the choice misses
        const edge = width < WITH_EDGE ? 0 : width / 4;
        context.fillRect(x + edge, y + edge, width - 2 * edge, height - 2 * edge);
      }
    } else {
      context.fillStyle = shadeOf(value);
      context.fillRect(x, y, width, height);
    }
    const fine = this.grid.geometry.cellHeight < LEAST; // lines within would leave nothing of the row
    context.fillStyle = theme.focus;
    if (row === look.query) context.fillRect(x, fine ? y - 2 : y - 1, width, 2);
    if (row === look.query && !fine) context.fillRect(x, y + height - 1, width, 2);
    if (fine && row === look.query + 1 && column < row) context.fillRect(x, y, width, 2);
  }

  #label(context: CanvasRenderingContext2D, at: number, rect: Rect, own?: number): void {
    const theme = this.theme();
    const now = at === own;
    const size = this.grid.geometry.cellWidth; // that of a rect is now a pixel more, now one less
    const text = labelOf(this.#read?.texts ?? [], at, size, own);
    if (text === "") return;
    context.font = `${now ? "600 " : ""}${Math.max(9, Math.min(11, size))}px ${theme.codeFont}`;
    context.fillStyle = now ? theme.text : theme.muted;
    // a position is wider than its column: it begins there, so that the first one is whole
    const begins = own === undefined && size < NAMED_FROM;
    context.textAlign = begins ? "left" : "center";
    const middle = Math.max(rect.y + rect.height / 2, own === undefined ? 0 : HEADER + 5); // the first one is whole, too
    context.fillText(text, begins ? rect.x : rect.x + rect.width / 2, middle);
    context.textAlign = "left";
  }

  #describe({ row, column }: Cell): string | undefined {
    const read = this.#read;
    if (!read) return undefined;
    const name = (at: number) => `“${tokenName(read.texts, at)}” (${at})`;
    if (column > row) return `${name(column)} comes after ${name(row)}: not seen`;
    const value = probability(read, this.#look.head, row, column);
    const lines = [`query ${name(row)}, key ${name(column)}`, `dense probability ${likely(value)}`];
    if (this.sparse) lines.push(choiceName(value, isChosen(read, this.#look, column, row)));
    return lines.join("\n");
  }
}
