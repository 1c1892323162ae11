// The ancestor mask: a row per node, a column per node that it may see, and one for the prefix that all see.

import { type Cell, CellGrid, type Disposer, type Rect, type Theme, type Tooltip } from "@sglab/core";
import type { Pass } from "./data";
import type { Standing } from "./steps";

const CELL = 22;
const LEFT = 30;
const TOP = 22;
const BORDERS = 2;
const PREFIX = 0; // the first column

export interface MaskShown {
  pass: Pass;
  standing: Standing;
  selected: number | undefined;
  height: number;
}

/** Whether node `row` attends to node `column`: itself and its ancestors. */
export function sees(pass: Pick<Pass, "nodes">, row: number, column: number): boolean {
  for (let at = row; at >= 0; at = pass.nodes[at]?.parent ?? -1) if (at === column) return true;
  return false;
}

/** Pixels of height that masks take where there is room. */
export function wantedMask(passes: readonly Pass[]): number {
  return TOP + CELL * Math.max(0, ...passes.map(({ nodes }) => nodes.length)) + BORDERS;
}

export class MaskView {
  readonly grid: CellGrid;
  #shown: MaskShown | undefined;

  constructor(
    private theme: () => Theme,
    tooltip: Tooltip,
    disposer: Disposer,
    press: (node: number) => void,
  ) {
    this.grid = new CellGrid(
      {
        label: "Ancestor mask: rows are queries, columns keys",
        theme,
        tooltip,
        paint: (context, cell, rect) => this.#paint(context, cell, rect),
        paintRowHeader: (context, row, rect) => this.#label(context, String(row), rect),
        paintColumnHeader: (context, column, rect) =>
          this.#label(context, column === PREFIX ? "all" : String(column - 1), rect),
        describe: (cell) => this.#describe(cell),
        select: ({ row }) => press(row),
      },
      disposer,
    );
  }

  draw(shown: MaskShown): void {
    this.#shown = shown;
    const count = shown.pass.nodes.length;
    const { geometry } = this.grid;
    if (geometry.rows === count && geometry.maxHeight === shown.height) this.grid.redraw();
    else
      this.grid.setGeometry({
        rows: count,
        columns: count + 1,
        cellWidth: CELL,
        cellHeight: CELL,
        headerWidth: LEFT,
        headerHeight: TOP,
        maxHeight: shown.height,
      });
  }

  /** Scrolls to a node's row: as it is made to its end, later wherever the row is scrolled. */
  reveal(node: number, made: boolean): void {
    this.grid.reveal(made ? { row: node, column: node + 1 } : { row: node });
  }

  #paint(context: CanvasRenderingContext2D, { row, column }: Cell, rect: Rect): void {
    const { pass, standing, selected } = this.#shown as MaskShown;
    const theme = this.theme();
    const known = row < standing.masked;
    const visible = known && (column === PREFIX || sees(pass, row, column - 1));
    const { x, y, width, height } = rect;
    context.fillStyle = visible ? (theme.dark ? "#56B4E9" : "#0072B2") : theme.background;
    context.fillRect(x, y, width, height);
    context.strokeStyle = theme.border;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, width, height);
    if (visible) {
      context.fillStyle = theme.dark ? "#000" : "#fff";
      context.font = `12px ${theme.codeFont}`;
      context.textAlign = "center";
      context.fillText("1", x + width / 2 + 0.5, y + height / 2 + 1);
      context.textAlign = "left";
    }
    if (row === selected) {
      context.strokeStyle = theme.focus;
      context.lineWidth = 2;
      context.beginPath();
      context.moveTo(x, y + 1);
      context.lineTo(x + width, y + 1);
      context.moveTo(x, y + height);
      context.lineTo(x + width, y + height);
      context.stroke();
    }
  }

  #label(context: CanvasRenderingContext2D, text: string, { x, y, width, height }: Rect): void {
    const theme = this.theme();
    context.fillStyle = theme.muted;
    context.font = `11px ${theme.uiFont}`;
    context.textAlign = "center";
    context.fillText(text, x + width / 2, y + height / 2);
    context.textAlign = "left";
  }

  #describe({ row, column }: Cell): string | undefined {
    if (!this.#shown) return undefined;
    const { pass, standing } = this.#shown;
    if (row >= standing.masked) return `node ${row}: its row is not made yet`;
    if (column === PREFIX)
      return `node ${row} sees ${pass.prefix === 1 ? "the token" : `all ${pass.prefix} tokens`} before the tree`;
    const other = column - 1;
    if (other === row) return `node ${row} sees itself`;
    return sees(pass, row, other)
      ? `node ${row} sees node ${other}, its ancestor`
      : `node ${row} does not see node ${other}, which is not above it`;
  }
}
