// A grid of cells on a canvas: scrolls over any number of rows and columns, draws only what is visible, and can be
// walked with the keyboard. What a cell means is the caller's business.

import { framed, h, setAttributes } from "./dom";
import type { Disposer } from "./emitter";
import { pixelRatio } from "./pixels";
import type { Theme } from "./theme";
import type { Tooltip } from "./tooltip";

export interface Cell {
  row: number;
  column: number;
}

export interface Rect {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Geometry {
  rows: number;
  columns: number;
  cellWidth: number;
  cellHeight: number;
  /** Room for row labels at the left and column labels above; they stay in place while cells scroll. */
  headerWidth: number;
  headerHeight: number;
  /** The grid grows with its rows up to this height, then scrolls. */
  maxHeight: number;
}

export interface CellGridOptions {
  label: string;
  theme: () => Theme;
  tooltip: Tooltip;
  paint: (context: CanvasRenderingContext2D, cell: Cell, rect: Rect) => void;
  paintRowHeader?: (context: CanvasRenderingContext2D, row: number, rect: Rect) => void;
  paintColumnHeader?: (context: CanvasRenderingContext2D, column: number, rect: Rect) => void;
  /** Above the row labels, beside the column labels: what they mean. */
  paintCorner?: (context: CanvasRenderingContext2D, rect: Rect) => void;
  /** Hover text, also spoken when the keyboard reaches the cell; undefined where there is no cell. */
  describe: (cell: Cell) => string | undefined;
  select: (cell: Cell) => void;
  /** The room for cells has changed: time to set another geometry. */
  resized?: () => void;
  /** After every drawing: for what is drawn over the grid. */
  drawn?: () => void;
}

const EMPTY: Geometry = {
  rows: 0,
  columns: 0,
  cellWidth: 1,
  cellHeight: 1,
  headerWidth: 0,
  headerHeight: 0,
  maxHeight: 0,
};

type Scrolled = Pick<HTMLElement, "scrollLeft" | "scrollTop">;

export class CellGrid {
  readonly element: HTMLElement;
  #canvas = h("canvas", { "aria-hidden": "true" });
  #content = h("div", { class: "sg-cells-content" }, this.#canvas);
  #spoken = h("div", { class: "sg-spoken", "aria-live": "polite" });
  #scroller: HTMLElement;
  #geometry = EMPTY;
  #cursor: Cell = { row: 0, column: 0 };
  #frame = framed(() => this.#draw());
  #width = 0;
  #measured = false;
  #ratio = 1; // pixels of the canvas per pixel of the page
  #bar = 0; // pixels of the bar that scrolls sideways
  #size = { width: 0, height: 0 };

  constructor(
    private options: CellGridOptions,
    disposer: Disposer,
  ) {
    const attributes = { class: "sg-cells", tabindex: 0, role: "group", "aria-label": options.label };
    this.#scroller = h("div", attributes, this.#content);
    this.element = h("div", { class: "sg-cells-box" }, this.#scroller, this.#spoken);
    const scroller = this.#scroller;
    disposer.listen(scroller, "scroll", () => this.redraw());
    disposer.listen(scroller, "pointermove", (event) => this.#hover(event));
    disposer.listen(scroller, "pointerleave", () => options.tooltip.hide());
    disposer.listen(scroller, "blur", () => options.tooltip.hide());
    disposer.listen(scroller, "click", (event) => this.#click(event));
    disposer.listen(scroller, "keydown", (event) => this.#key(event));
    disposer.listen(scroller, "focus", () => this.redraw());
    const observer = new ResizeObserver(() => {
      this.#measured = false;
      this.#width = 0;
      options.resized?.();
      this.redraw();
    });
    for (const each of [scroller, this.element]) observer.observe(each);
    disposer.add(() => observer.disconnect());
    disposer.add(() => this.#frame.cancel());
  }

  /** px that there are for cells and headers; read from the page once per size, as that lays it out. */
  get width(): number {
    this.#width ||= this.element.clientWidth;
    return this.#width;
  }

  get geometry(): Geometry {
    return this.#geometry;
  }

  setLabel(label: string): void {
    setAttributes(this.#scroller, { "aria-label": label });
  }

  setGeometry(geometry: Geometry): void {
    const before = this.#geometry;
    this.#geometry = geometry;
    this.redraw();
    if ((Object.keys(geometry) as (keyof Geometry)[]).every((key) => geometry[key] === before[key])) return;
    const { rows, columns, cellWidth, cellHeight, headerWidth, headerHeight } = geometry;
    this.#content.style.width = `${headerWidth + columns * cellWidth + 1}px`;
    const height = headerHeight + rows * cellHeight + 1;
    this.#content.style.height = `${height}px`;
    this.#limit();
    this.#measured = false;
  }

  /** As high as asked for, with the last cell's lower edge, the borders and the bar that scrolls sideways besides. */
  #limit(): void {
    const { maxHeight, headerHeight, cellHeight } = this.#geometry;
    this.#scroller.style.maxHeight = `${Math.max(maxHeight, headerHeight + cellHeight) + 3 + this.#bar}px`;
  }

  redraw(): void {
    this.#frame.schedule();
  }

  /** For a caller that draws in a frame of its own. */
  drawNow(): void {
    this.#frame.now();
  }

  /** Scrolls as little as needed to show a cell, a row wherever it is scrolled sideways, or a column likewise. */
  reveal({ row, column }: Partial<Cell>): void {
    const { cellWidth, cellHeight, headerWidth, headerHeight } = this.#geometry;
    const scroller = this.#scroller;
    const left = column === undefined ? scroller.scrollLeft : column * cellWidth;
    const top = row === undefined ? scroller.scrollTop : row * cellHeight;
    const width = scroller.clientWidth - headerWidth;
    const height = scroller.clientHeight - headerHeight;
    if (left < scroller.scrollLeft || left + cellWidth > scroller.scrollLeft + width)
      scroller.scrollLeft = Math.max(0, left - (width - cellWidth) / 2);
    if (top < scroller.scrollTop || top + cellHeight > scroller.scrollTop + height)
      scroller.scrollTop = Math.max(0, top - (height - cellHeight) / 2);
  }

  /** Where a cell is on the screen, or undefined where it is scrolled out of sight. */
  clientRect(cell: Cell): Rect | undefined {
    const rect = this.#rect(cell);
    const box = this.#scroller.getBoundingClientRect();
    const { headerWidth, headerHeight } = this.#geometry;
    const hidden =
      rect.x + rect.width < headerWidth ||
      rect.y + rect.height < headerHeight ||
      rect.x > box.width ||
      rect.y > box.height;
    if (hidden) return undefined;
    return { ...rect, x: rect.x + box.left + 1, y: rect.y + box.top + 1 };
  }

  /** A cell's place on the canvas, from whole pixel to whole pixel where cells are not whole pixels large. */
  #rect({ row, column }: Cell, { scrollLeft, scrollTop }: Scrolled = this.#scroller): Rect {
    const { cellWidth, cellHeight, headerWidth, headerHeight } = this.#geometry;
    const left = headerWidth + column * cellWidth - scrollLeft;
    const top = headerHeight + row * cellHeight - scrollTop;
    const [x, y] = [Math.round(left), Math.round(top)];
    return { x, y, width: Math.round(left + cellWidth) - x, height: Math.round(top + cellHeight) - y };
  }

  #draw(): void {
    const scroller = this.#scroller;
    const context = this.#canvas.getContext("2d");
    if (!context) return;
    this.#fit();
    const { width, height } = this.#size;
    if (!width || !height) return;
    const theme = this.options.theme();
    context.setTransform(this.#ratio, 0, 0, this.#ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.textBaseline = "middle";
    const { rows, columns, cellWidth, cellHeight, headerWidth, headerHeight } = this.#geometry;
    const { scrollLeft, scrollTop } = scroller;
    const at = { scrollLeft, scrollTop }; // the scroller itself would be read for each cell
    const firstRow = Math.floor(scrollTop / cellHeight);
    const lastRow = Math.min(rows, Math.ceil((scrollTop + height - headerHeight) / cellHeight));
    const firstColumn = Math.floor(scrollLeft / cellWidth);
    const lastColumn = Math.min(columns, Math.ceil((scrollLeft + width - headerWidth) / cellWidth));

    this.#clipped(context, { x: headerWidth, y: headerHeight, width, height }, () => {
      for (let row = firstRow; row < lastRow; row++)
        for (let column = firstColumn; column < lastColumn; column++)
          this.options.paint(context, { row, column }, this.#rect({ row, column }, at));
      this.#paintCursor(context, theme);
    });
    this.#clipped(context, { x: 0, y: headerHeight, width: headerWidth, height }, () => {
      for (let row = firstRow; row < lastRow; row++)
        this.options.paintRowHeader?.(context, row, {
          ...this.#rect({ row, column: 0 }, at),
          x: 0,
          width: headerWidth,
        });
    });
    this.#clipped(context, { x: headerWidth, y: 0, width, height: headerHeight }, () => {
      for (let column = firstColumn; column < lastColumn; column++) {
        const rect = { ...this.#rect({ row: 0, column }, at), y: 0, height: headerHeight };
        this.options.paintColumnHeader?.(context, column, rect);
      }
    });
    this.options.paintCorner?.(context, { x: 0, y: 0, width: headerWidth, height: headerHeight });
    this.options.drawn?.();
  }

  /** Makes the canvas as large as what is seen of the cells; one that is already keeps its memory. */
  #fit(): void {
    if (this.#measured && this.#ratio === pixelRatio()) return;
    this.#ratio = pixelRatio();
    const bar = Math.max(0, this.#scroller.offsetHeight - this.#scroller.clientHeight - 2);
    if (bar !== this.#bar) {
      this.#bar = bar;
      this.#limit();
    }
    const { clientWidth: width, clientHeight: height } = this.#scroller;
    this.#measured = width > 0 && height > 0;
    this.#size = { width, height };
    const canvas = this.#canvas;
    const pixels = [Math.round(width * this.#ratio), Math.round(height * this.#ratio)] as const;
    if (canvas.width !== pixels[0]) canvas.width = pixels[0];
    if (canvas.height !== pixels[1]) canvas.height = pixels[1];
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }

  #clipped(context: CanvasRenderingContext2D, rect: Rect, draw: () => void): void {
    context.save();
    context.beginPath();
    context.rect(rect.x, rect.y, rect.width, rect.height);
    context.clip();
    draw();
    context.restore();
  }

  #paintCursor(context: CanvasRenderingContext2D, theme: Theme): void {
    if (!this.#scroller.matches(":focus-visible")) return;
    const { x, y, width, height } = this.#rect(this.#cursor);
    context.strokeStyle = theme.focus;
    context.lineWidth = 2;
    context.setLineDash([3, 2]);
    context.strokeRect(x + 2, y + 2, width - 4, height - 4);
    context.setLineDash([]);
  }

  #cellAt(event: MouseEvent): Cell | undefined {
    const box = this.#scroller.getBoundingClientRect();
    const { rows, columns, cellWidth, cellHeight, headerWidth, headerHeight } = this.#geometry;
    const x = event.clientX - box.left - headerWidth;
    const y = event.clientY - box.top - headerHeight;
    if (y < 0) return undefined;
    const row = Math.floor((y + this.#scroller.scrollTop) / cellHeight);
    // A row's label counts as its first cell.
    const column = x < 0 ? 0 : Math.floor((x + this.#scroller.scrollLeft) / cellWidth);
    return row < rows && column < columns ? { row, column } : undefined;
  }

  #hover(event: PointerEvent): void {
    const cell = this.#cellAt(event);
    this.options.tooltip.show(cell && this.options.describe(cell), event.clientX, event.clientY);
  }

  #click(event: MouseEvent): void {
    const cell = this.#cellAt(event);
    if (!cell) return;
    this.#cursor = cell;
    this.options.select(cell);
    this.redraw();
  }

  #key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const { rows, columns } = this.#geometry;
    const { row, column } = this.#cursor;
    const page = 10;
    const targets: Record<string, Cell> = {
      ArrowLeft: { row, column: column - 1 },
      ArrowRight: { row, column: column + 1 },
      ArrowUp: { row: row - 1, column },
      ArrowDown: { row: row + 1, column },
      PageUp: { row: row - page, column },
      PageDown: { row: row + page, column },
      Home: { row, column: 0 },
      End: { row, column: columns - 1 },
    };
    const target = targets[event.key];
    if (target) {
      this.#moveCursor({
        row: Math.max(0, Math.min(rows - 1, target.row)),
        column: Math.max(0, Math.min(columns - 1, target.column)),
      });
    } else if (event.key === "Enter") this.options.select(this.#cursor);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #moveCursor(cell: Cell): void {
    this.#cursor = cell;
    this.reveal(cell);
    this.#frame.now();
    const text = this.options.describe(cell);
    this.#spoken.textContent = text ?? "no cell";
    const rect = this.clientRect(cell);
    if (rect) this.options.tooltip.show(text, rect.x + rect.width / 2, rect.y + rect.height);
  }
}
