// Slots down, captures and replays across: whose each slot was, and which were padding.

import {
  CellGrid,
  type Disposer,
  lookOf,
  type Rect,
  sharedPaint,
  type Theme,
  type Tooltip,
} from "@sglab/core";
import type { Event } from "./protocol";
import { sentence } from "./words";

const LABELS = 64;
const HEADER = 34;

export interface SlotsState {
  events: readonly Event[];
  sizes: readonly number[];
  position: number;
  slot: number | undefined;
}

export interface Slots {
  grid: CellGrid;
  layout(state: SlotsState, width: number, height: number): void;
}

export function makeSlots(
  state: () => SlotsState,
  theme: () => Theme,
  tooltip: Tooltip,
  disposer: Disposer,
  pick: (slot: number, event: number) => void,
  resized: () => void,
): Slots {
  const grid = new CellGrid(
    {
      label: "Slots of every capture and replay",
      theme,
      tooltip,
      paint: (context, { row, column }, rect) => {
        const { events, position, slot } = state();
        const index = eventOf(events, column);
        const event = events[index];
        if (!event || row >= event.bs) return;
        context.globalAlpha = index >= position ? 0.25 : 1;
        paintSlot(context, event, row, rect, theme());
        context.globalAlpha = 1;
        if (index === position - 1 && row === slot) {
          context.strokeStyle = theme().focus;
          context.lineWidth = 2;
          context.strokeRect(rect.x + 1, rect.y + 1, rect.width - 2, rect.height - 2);
        }
        if (index === position - 1) {
          context.fillStyle = theme().focus;
          context.fillRect(rect.x + rect.width - 1, rect.y, 1.5, rect.height);
        }
      },
      paintRowHeader: (context, row, rect) => {
        context.fillStyle = theme().text;
        context.font = `11px ${theme().uiFont}`;
        context.fillText(`slot ${row}`, 4, rect.y + rect.height / 2);
      },
      paintColumnHeader: (context, column, rect) => paintHead(context, state(), column, rect, theme()),
      paintCorner: (context) => {
        context.fillStyle = theme().muted;
        context.font = `11px ${theme().uiFont}`;
        context.fillText("size", 4, 9);
        context.fillText("no.", 4, 25);
      },
      describe: ({ row, column }) => describe(state(), row, column),
      select: ({ row, column }) => {
        const index = eventOf(state().events, column);
        if (index >= 0) pick(row, index);
      },
      resized,
    },
    disposer,
  );
  return {
    grid,
    layout({ events, sizes }, width, height) {
      const rows = Math.max(1, sizes.at(-1) ?? 1);
      const columns = events.length + 1;
      const room = (width - LABELS - 4) / columns;
      grid.setGeometry({
        rows,
        columns,
        cellWidth: Math.max(6, Math.min(40, Math.floor(room * 2) / 2)),
        cellHeight: Math.max(12, Math.min(30, Math.floor((height - HEADER) / rows))),
        headerWidth: LABELS,
        headerHeight: HEADER,
        maxHeight: height,
      });
    },
  };
}

function capturesOf(events: readonly Event[]): number {
  const first = events.findIndex(({ kind }) => kind === "replay");
  return first < 0 ? events.length : first;
}

/** Which event a column shows; −1 for the gap between captures and replays. */
export function eventOf(events: readonly Event[], column: number): number {
  const captures = capturesOf(events);
  if (column < captures) return column;
  return column === captures ? -1 : column - 1;
}

/** The inverse. */
export function columnOf(events: readonly Event[], index: number): number {
  return index < capturesOf(events) ? index : index + 1;
}

function paintSlot(
  context: CanvasRenderingContext2D,
  event: Event,
  row: number,
  rect: Rect,
  theme: Theme,
): void {
  const { x, y, width, height } = { ...rect, width: rect.width - 1, height: rect.height - 1 };
  const paint = sharedPaint();
  if (event.kind === "capture") {
    context.strokeStyle = theme.text;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
    return;
  }
  if (row >= event.raw) {
    context.fillStyle = paint.empty(theme.text);
    context.fillRect(x, y, width, height);
    context.strokeStyle = theme.border;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
    return;
  }
  const number = event.requests[row]?.[0];
  context.fillStyle = number === undefined ? theme.muted : paint.fill(lookOf(number, theme.dark));
  context.fillRect(x, y, width, height);
}

function paintHead(
  context: CanvasRenderingContext2D,
  { events, position }: SlotsState,
  column: number,
  rect: Rect,
  theme: Theme,
): void {
  const index = eventOf(events, column);
  const event = events[index];
  if (!event) return;
  const captures = capturesOf(events);
  const before = events[index - 1];
  context.font = `${index === position - 1 ? "600 " : ""}11px ${theme.uiFont}`;
  context.fillStyle = theme.text;
  // a size is written where it changes, a number where there is room
  if (before?.bs !== event.bs || before.kind !== event.kind) {
    const room = nextChange(events, index) - index;
    if (room * rect.width >= context.measureText(String(event.bs)).width + 3)
      context.fillText(String(event.bs), rect.x + 1, 9);
  }
  context.fillStyle = theme.muted;
  const every = Math.max(1, Math.ceil(28 / rect.width));
  if (event.kind === "capture") {
    const text = "captured";
    if (index === 0 && captures * rect.width > context.measureText(text).width)
      context.fillText(text, rect.x + 1, 25);
  } else if ((index - captures) % (every === 1 ? 1 : Math.ceil(every / 5) * 5) === 0)
    context.fillText(String(index - captures), rect.x + 1, 25);
}

function nextChange(events: readonly Event[], column: number): number {
  let next = column + 1;
  while (next < events.length && events[next]?.bs === events[column]?.bs) next += 1;
  return next;
}

function describe({ events }: SlotsState, row: number, column: number): string | undefined {
  const event = events[eventOf(events, column)];
  if (!event || row >= event.bs) return undefined;
  if (event.kind === "capture") return sentence(event);
  const who =
    row < event.raw
      ? (event.requests[row]?.[1] ?? "a request")
      : "padding: length 1, written to the dummy page";
  return `slot ${row}: ${who}\n${sentence(event)}`;
}
