// The KV pool: every page at its place, the dummy page first.

import { type Cell, CellGrid, type Disposer, type Rect } from "@sglab/core";
import { CACHED, DUMMY, FREE, type Page } from "./model";
import { shortName } from "./names";
import { DIM, type Shared } from "./shared";
import { describePage } from "./words";

/** Cell sizes, largest first: the first with which the pool fits is taken. */
const SIZES = [
  { width: 44, height: 32 },
  { width: 30, height: 20 },
  { width: 16, height: 14 },
  { width: 9, height: 9 },
];
const HEIGHT = 230;
const HEADER = 44;

export class PoolView {
  readonly grid: CellGrid;
  #columns = 1;

  constructor(
    private shared: Shared,
    disposer: Disposer,
  ) {
    this.grid = new CellGrid(
      {
        label: "Pages of the KV pool",
        theme: shared.theme,
        tooltip: shared.tooltip,
        paint: (context, cell, rect) => this.#paint(context, this.pageAt(cell), rect),
        paintRowHeader: (context, row, rect) => this.#paintHeader(context, row, rect),
        describe: (cell) => describePage(shared.model, this.pageAt(cell)),
        select: (cell) => this.#select(this.pageAt(cell)),
        resized: () => this.layout(),
        drawn: shared.drawn,
      },
      disposer,
    );
  }

  pageAt({ row, column }: Cell): number {
    return row * this.#columns + column;
  }

  cellOf(page: number): Cell {
    return { row: Math.floor(page / this.#columns), column: page % this.#columns };
  }

  layout(): void {
    const pages = this.shared.model.pool.pages + 1;
    const room = Math.max(160, this.grid.element.clientWidth - HEADER - 20);
    const columnsFor = (width: number) => {
      const fitting = Math.max(1, Math.floor(room / width));
      return fitting >= 16 ? fitting - (fitting % 8) : fitting;
    };
    const fits = SIZES.find(({ width, height }) => Math.ceil(pages / columnsFor(width)) * height <= HEIGHT);
    const size = fits ?? (SIZES.at(-1) as (typeof SIZES)[number]);
    this.#columns = Math.min(columnsFor(size.width), Math.max(8, pages));
    this.grid.setGeometry({
      rows: Math.ceil(pages / this.#columns),
      columns: this.#columns,
      cellWidth: size.width,
      cellHeight: size.height,
      headerWidth: HEADER,
      headerHeight: 0,
      maxHeight: HEIGHT,
    });
  }

  #select(id: number): void {
    const page = this.shared.model.page(id);
    if (page) this.shared.selectPage(id, page.owner, page.number);
  }

  #paint(context: CanvasRenderingContext2D, id: number, rect: Rect): void {
    const { model } = this.shared;
    const page = id <= model.pool.pages ? model.page(id) : undefined;
    if (!page) return;
    const gap = rect.width > 12 ? 1 : 0.5;
    const cell = {
      x: rect.x + gap,
      y: rect.y + gap,
      width: rect.width - 2 * gap,
      height: rect.height - 2 * gap,
    };
    const now = this.shared.nowPage === id;
    context.globalAlpha = this.shared.dimmedPage(id, page) && !now ? DIM : 1;
    this.#paintGround(context, page, cell);
    if (rect.width >= 26) this.#label(context, id, page, cell);
    context.globalAlpha = 1;
    this.shared.paintMarks(context, cell, { page: id, now });
  }

  #paintGround(context: CanvasRenderingContext2D, page: Page, cell: Rect): void {
    const { painter, model } = this.shared;
    if (page.owner < 0) {
      painter.neutral(context, cell);
      if (page.owner === CACHED) painter.empty(context, cell);
      if (page.owner === DUMMY) painter.cross(context, cell);
      return;
    }
    const look = this.shared.look(page.owner);
    painter.empty(context, cell);
    context.fillStyle = painter.fill(look);
    context.fillRect(cell.x, cell.y, (cell.width * page.used) / model.pool.page_size, cell.height);
    context.strokeStyle = look.fill;
    context.lineWidth = 1;
    context.strokeRect(cell.x + 0.5, cell.y + 0.5, cell.width - 1, cell.height - 1);
  }

  #label(context: CanvasRenderingContext2D, id: number, page: Page, cell: Rect): void {
    const { painter } = this.shared;
    const centre = { x: cell.x + cell.width / 2, y: cell.y + cell.height / 2 };
    const theme = painter.theme();
    const small = cell.height < 20 ? 10 : 12;
    if (page.owner >= 0) this.#ownedLabel(context, id, page, cell);
    else if (page.owner === FREE) {
      context.textAlign = "center";
      painter.text(context, String(id), centre.x, centre.y, theme.muted, small);
      if (page.rank === 0) this.#nextInLine(context, cell);
    } else painter.plated(context, String(id), centre, theme.surface, theme.text, small);
  }

  /** The page, and below it its request, which colour alone must not convey. */
  #ownedLabel(context: CanvasRenderingContext2D, id: number, page: Page, cell: Rect): void {
    const { painter, model } = this.shared;
    const { fill, ink } = this.shared.look(page.owner);
    const centre = { x: cell.x + cell.width / 2, y: cell.y + cell.height / 2 };
    if (cell.height < 24) {
      painter.plated(context, String(id), centre, fill, ink, 10, true);
      return;
    }
    const owner = shortName(model.requests[page.owner]?.name ?? "");
    const holders = page.holders > 1 ? `${owner} +${page.holders - 1}` : owner;
    painter.plated(context, String(id), { ...centre, y: centre.y - 6 }, fill, ink, 12, true);
    painter.plated(context, holders, { ...centre, y: centre.y + 7 }, fill, ink, 9);
  }

  /** A small triangle: the page that will be handed out next. */
  #nextInLine(context: CanvasRenderingContext2D, { x, y }: Rect): void {
    context.fillStyle = this.shared.painter.theme().text;
    context.beginPath();
    context.moveTo(x + 1, y + 1);
    context.lineTo(x + 8, y + 1);
    context.lineTo(x + 1, y + 8);
    context.fill();
  }

  #paintHeader(context: CanvasRenderingContext2D, row: number, rect: Rect): void {
    const first = row * this.#columns;
    const sparse = rect.height < 12 && row % 2 === 1;
    if (first > this.shared.model.pool.pages || sparse) return;
    const { painter } = this.shared;
    context.textAlign = "right";
    painter.text(
      context,
      String(first),
      rect.x + rect.width - 6,
      rect.y + rect.height / 2,
      painter.theme().muted,
      10,
    );
  }
}
