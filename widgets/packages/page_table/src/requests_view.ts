// Requests as rows: each cell is one of a request's pages, as long as its tokens reach into it.

import { type Cell, CellGrid, type Disposer, format, type Look, type Rect } from "@sglab/core";
import { DIM, type Shared } from "./shared";
import { describeRequestPage } from "./words";

const HEADER = 148;

export class RequestsView {
  readonly grid: CellGrid;
  /** Pixels of height that its rows may take. */
  room = 246;
  /** Whether every cell has room for its token range below its page. */
  #tokensFit = false;

  constructor(
    private shared: Shared,
    disposer: Disposer,
  ) {
    this.grid = new CellGrid(
      {
        label: "Requests and their pages",
        theme: shared.theme,
        tooltip: shared.tooltip,
        paint: (context, cell, rect) => this.#paint(context, cell, rect),
        paintRowHeader: (context, row, rect) => this.#paintHeader(context, row, rect),
        describe: ({ row, column }) => {
          const request = shared.model.requests[row];
          return request && describeRequestPage(shared.model, request, column);
        },
        select: (cell) => this.#select(cell),
        resized: () => this.layout(),
        drawn: shared.drawn,
      },
      disposer,
    );
  }

  layout(): void {
    const { requests } = this.shared.model;
    const columns = Math.max(1, ...requests.map((request) => request.pages));
    const room = Math.max(200, this.grid.element.clientWidth - HEADER - 20);
    const fitting = Math.floor(room / columns);
    const many = requests.length > 12;
    const least = Math.max(30, 8 + 7 * String(this.shared.model.pool.pages).length);
    const cellWidth = Math.max(least, Math.min(88, fitting));
    const longest = 2 * String(Math.max(0, ...requests.map(({ seqLen }) => seqLen))).length + 1;
    this.#tokensFit = !many && cellWidth >= 10 + 5.5 * longest && this.shared.model.pool.page_size > 1;
    this.grid.setGeometry({
      rows: requests.length,
      columns,
      cellWidth,
      cellHeight: many ? 20 : 34,
      headerWidth: HEADER,
      headerHeight: 0,
      maxHeight: this.room,
    });
  }

  #select({ row, column }: Cell): void {
    const request = this.shared.model.requests[row];
    if (!request) return;
    this.shared.selectPage(this.shared.model.pageOf(request, column), row, column);
  }

  #paint(context: CanvasRenderingContext2D, { row, column }: Cell, rect: Rect): void {
    const { model, painter } = this.shared;
    const request = model.requests[row];
    if (!request || column >= request.pages) return;
    const page = model.pageOf(request, column);
    const size = model.pool.page_size;
    const used = Math.min(size, request.seqLen - column * size);
    const cell = { x: rect.x + 1, y: rect.y + 2, width: rect.width - 2, height: rect.height - 4 };
    const filled = { ...cell, width: (cell.width * used) / size };
    const look = this.shared.look(row);
    const now = this.shared.isNow(row, column);
    context.globalAlpha = this.shared.dimmed(row, page, column) && !now ? DIM : 1;
    painter.empty(context, cell);
    context.fillStyle = painter.fill(look);
    context.fillRect(filled.x, filled.y, filled.width, filled.height);
    context.strokeStyle = look.fill;
    context.lineWidth = 1;
    context.strokeRect(cell.x + 0.5, cell.y + 0.5, cell.width - 1, cell.height - 1);
    if (page !== undefined && rect.width >= 26)
      this.#label(context, cell, column, page, request.seqLen, look);
    context.globalAlpha = 1;
    this.shared.paintMarks(context, cell, { page, request: row, now });
  }

  #label(
    context: CanvasRenderingContext2D,
    cell: Rect,
    number: number,
    page: number,
    seqLen: number,
    { fill: plate, ink }: Look,
  ): void {
    const { painter, model } = this.shared;
    const x = cell.x + cell.width / 2;
    const size = model.pool.page_size;
    const first = number * size;
    const tokens = `${first}–${Math.min(first + size, seqLen) - 1}`;
    const two = this.#tokensFit;
    const y = cell.y + cell.height / 2;
    painter.plated(
      context,
      String(page),
      { x, y: two ? y - 6 : y },
      plate,
      ink,
      cell.height < 20 ? 10 : 12,
      true,
    );
    if (!two) return;
    painter.plated(context, tokens, { x, y: y + 7 }, plate, ink, 9);
  }

  #paintHeader(context: CanvasRenderingContext2D, row: number, rect: Rect): void {
    const { painter, model } = this.shared;
    const request = model.requests[row];
    if (!request) return;
    const theme = painter.theme();
    const y = rect.y + rect.height / 2;
    context.globalAlpha = this.shared.dimmed(row) ? DIM : 1;
    context.fillStyle = painter.fill(this.shared.look(row));
    context.fillRect(rect.x + 4, y - 6, 12, 12);
    context.textAlign = "left";
    painter.text(context, request.name, rect.x + 21, y, theme.text, 12);
    context.textAlign = "right";
    painter.text(
      context,
      format.plural(request.seqLen, "token"),
      rect.x + rect.width - 8,
      y,
      theme.muted,
      11,
    );
    context.globalAlpha = 1;
  }
}
