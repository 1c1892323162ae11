// Requests down, steps across: each cell says what a request did in a step, by form as well as by colour.

import {
  CellGrid,
  type Disposer,
  HATCHED_FROM,
  lookOf,
  type Rect,
  sharedPaint,
  type Theme,
  type Tooltip,
} from "@sglab/core";
import type { Cell, Run } from "./model";
import { sentence, shareText } from "./model";

const ROW = 20;
const LEAST_ROW = 9;
const WIDEST = 48;
const NARROWEST = 4;
const HEADER = 18;
const LABEL = 15; // px of the name that is selected, where rows are lower
export const LABELS = 96;

export interface BoardState {
  run: Run;
  /** Steps that have happened. */
  position: number;
  selected: number | undefined;
}

export interface Board {
  grid: CellGrid;
  layout(run: Run, width: number, height: number): void;
}

export function makeBoard(
  state: () => BoardState | undefined,
  theme: () => Theme,
  tooltip: Tooltip,
  disposer: Disposer,
  events: { pick: (request: number, step: number) => void; drawn: () => void; resized: () => void },
): Board {
  const grid = new CellGrid(
    {
      label: "Requests over steps",
      theme,
      tooltip,
      paint: (context, { row, column }, rect) => {
        const shown = state();
        const cell = shown?.run.cell(row, column);
        if (!shown) return;
        const dim = shown.selected !== undefined && shown.selected !== row;
        context.globalAlpha = (column >= shown.position ? 0.22 : 1) * (dim ? 0.35 : 1);
        if (cell) paintCell(context, cell, row, rect, grid.geometry.cellWidth, theme());
        context.globalAlpha = 1;
        if (column === shown.position - 1) paintNow(context, rect, theme());
      },
      paintRowHeader: (context, row, rect) => {
        const shown = state();
        if (shown) paintLabel(context, shown, row, rect, theme());
      },
      paintColumnHeader: (context, column, rect) => {
        const { cellWidth } = grid.geometry; // one wants the same of all, whose rects differ by a pixel
        const every = cellWidth >= 22 ? 1 : cellWidth >= 9 ? 5 : 20;
        if (column % every) return;
        context.fillStyle = theme().muted;
        context.font = `11px ${theme().uiFont}`;
        context.fillText(String(column), rect.x + 1, rect.y + rect.height / 2);
      },
      paintCorner: (context, rect) => {
        context.fillStyle = theme().muted;
        context.font = `11px ${theme().uiFont}`;
        context.fillText("step", rect.x + rect.width - 26, rect.y + rect.height / 2);
      },
      describe: ({ row, column }) => describe(state(), row, column),
      select: ({ row, column }) => events.pick(row, column),
      resized: events.resized,
      drawn: events.drawn,
    },
    disposer,
  );
  return {
    grid,
    layout(run, width, height) {
      const rows = Math.max(1, run.requests.length);
      const columns = Math.max(1, run.steps.length);
      const cellWidth = Math.max(NARROWEST, Math.min(WIDEST, (width - LABELS - 4) / columns));
      grid.element.style.maxWidth = `${LABELS + columns * cellWidth + 3}px`; // it ends where the charts below end
      grid.setGeometry({
        rows,
        columns,
        cellWidth,
        cellHeight: Math.max(LEAST_ROW, Math.min(ROW, Math.floor((height - HEADER) / rows))),
        headerWidth: LABELS,
        headerHeight: HEADER,
        maxHeight: height,
      });
    },
  };
}

function describe(shown: BoardState | undefined, row: number, column: number): string | undefined {
  if (!shown) return undefined;
  const { run } = shown;
  const cell = run.cell(row, column);
  const words = { waiting: "waited", paused: "held its slots, but did not run", gone: "was there no more" };
  const what = cell?.share
    ? `${shareText(cell.share)}${cell.failed ? " in a pass that failed" : ""}`
    : cell
      ? words[cell.kind as keyof typeof words]
      : "was not there";
  const ends = `${cell?.retracted ? "; was retracted" : ""}${cell?.finished ? `; ended (${cell.finished})` : ""}`;
  return `${run.name(row)} ${what}${ends}\n${sentence(run, column)}`;
}

function paintCell(
  context: CanvasRenderingContext2D,
  cell: Cell,
  row: number,
  rect: Rect,
  step: number,
  theme: Theme,
): void {
  const { x, y, width, height } = rect;
  const look = lookOf(row, theme.dark);
  const fill = step >= HATCHED_FROM ? sharedPaint().fill(look) : look.fill;
  const middle = y + height / 2;
  const gap = step >= 8 ? 1 : 0;
  if (cell.kind === "waiting") {
    context.fillStyle = theme.muted;
    context.fillRect(x, Math.round(middle), Math.max(1, width * 0.5), 1);
  } else if (cell.kind === "paused") {
    context.fillStyle = look.fill;
    context.fillRect(x, Math.round(middle) - 1, width, 2);
  } else if (cell.kind === "decode" || cell.kind === "verify") {
    context.fillStyle = fill;
    const tall = Math.max(4, Math.round(height * 0.42));
    context.fillRect(x, Math.round(middle - tall / 2), width - gap, tall);
    if (cell.kind === "verify") {
      context.fillStyle = sharedPaint().empty(look.ink);
      context.fillRect(x, Math.round(middle - tall / 2), width - gap, tall);
    }
  } else if (cell.kind !== "gone") {
    context.fillStyle = fill;
    context.fillRect(x, y + 1, width - gap, height - 2);
    context.strokeStyle = theme.text;
    context.lineWidth = 1;
    if (step >= 4) context.strokeRect(x + 0.5, y + 1.5, Math.max(1, width - gap - 1), height - 3);
    if (cell.kind === "chunk") {
      context.fillStyle = sharedPaint().empty(look.ink);
      context.fillRect(x, y + 1, width - gap, height - 2);
    }
  }
  if (cell.finished) {
    context.fillStyle = theme.text;
    context.fillRect(cell.kind === "gone" ? x : x + width - 2, y + 1, 2, height - 2);
  }
  if (cell.failed) {
    const half = Math.min(5, Math.max(2, step / 2 - 1));
    const centre = x + width / 2;
    context.strokeStyle = theme.error;
    context.lineWidth = 2;
    context.beginPath();
    for (const [from, to] of [
      [-half, half],
      [half, -half],
    ] as const) {
      context.moveTo(centre + from, middle - half);
      context.lineTo(centre + to, middle + half);
    }
    context.stroke();
  }
  if (cell.retracted) {
    const half = Math.min(5, Math.max(3, step / 2));
    const centre = x + width / 2;
    context.fillStyle = theme.error;
    context.beginPath();
    context.moveTo(centre - half, middle - 4);
    context.lineTo(centre + half, middle - 4);
    context.lineTo(centre, middle + 4);
    context.fill();
  }
}

function paintNow(context: CanvasRenderingContext2D, { x, y, width, height }: Rect, theme: Theme): void {
  context.fillStyle = theme.focus;
  context.fillRect(x + width - 1, y, 1.5, height);
}

function paintLabel(
  context: CanvasRenderingContext2D,
  { run, selected }: BoardState,
  row: number,
  { x, y, width, height }: Rect,
  theme: Theme,
): void {
  const small = height < 12;
  const beside = selected !== undefined && Math.abs(row - selected) === 1; // its name needs their room
  if (small && selected !== row && (row % 2 || beside)) return;
  const tall = Math.max(height, LABEL); // over the rows beside it, which have no names then
  const top = Math.max(HEADER, y - (tall - height) / 2);
  if (selected === row) {
    context.fillStyle = theme.background;
    context.fillRect(x, top, width, tall);
    context.strokeStyle = theme.focus;
    context.lineWidth = 2;
    context.strokeRect(x + 1, top + 1, width - 2, tall - 2);
  }
  context.font = `${selected === row ? "600 " : ""}${small ? 10 : 11}px ${theme.uiFont}`;
  context.fillStyle = theme.text;
  let text = run.name(row);
  while (text.length > 4 && context.measureText(text).width > width - 8) text = `${text.slice(0, -2)}…`;
  context.fillText(text, x + 3, selected === row ? top + tall / 2 : y + height / 2);
}
