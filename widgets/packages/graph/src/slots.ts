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
const DIGIT = 7; // px

export interface SlotsState {
  events: readonly Event[];
  sizes: readonly number[];
  position: number;
  slot: number | undefined;
}

export interface Slots {
  grid: CellGrid;
  layout(state: SlotsState, width: number, height: number): void;
  /** Brings what happened in an event into sight. */
  reveal(slot: number, index: number): void;
}

export function makeSlots(
  state: () => SlotsState,
  theme: () => Theme,
  tooltip: Tooltip,
  disposer: Disposer,
  pick: (slot: number, event: number) => void,
  resized: () => void,
): Slots {
  let span = 1; // columns of a capture
  const grid = new CellGrid(
    {
      label: "Slots of every capture and replay",
      theme,
      tooltip,
      paint: (context, { row, column }, rect) => {
        const { events, position, slot } = state();
        const index = eventOf(events, column, span);
        const event = events[index];
        if (!event || row >= event.bs) return;
        const whole = wholeOf(event, rect, column, span);
        context.globalAlpha = index >= position ? 0.25 : 1;
        if (whole) paintSlot(context, event, row, whole, theme());
        context.globalAlpha = 1;
        if (index !== position - 1 || !whole) return;
        if (row === slot) {
          context.strokeStyle = theme().focus;
          context.lineWidth = 2;
          context.strokeRect(whole.x + 1, whole.y + 1, whole.width - 2, whole.height - 2);
        }
        context.fillStyle = theme().focus;
        context.fillRect(whole.x + whole.width - 1, whole.y, 1.5, whole.height);
      },
      paintRowHeader: (context, row, rect) => {
        context.fillStyle = theme().text;
        context.font = `11px ${theme().uiFont}`;
        context.fillText(`slot ${row}`, 4, rect.y + rect.height / 2);
      },
      paintColumnHeader: (context, column, rect) => paintHead(context, state(), column, span, rect, theme()),
      paintCorner: (context) => {
        context.fillStyle = theme().muted;
        context.font = `11px ${theme().uiFont}`;
        context.fillText("size", 4, 9);
        context.fillText("no.", 4, 25);
      },
      describe: ({ row, column }) => describe(state().events[eventOf(state().events, column, span)], row),
      select: ({ row, column }) => {
        const index = eventOf(state().events, column, span);
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
      const captures = capturesOf(events);
      const replays = events.length - captures + 1;
      const widthFor = (each: number) =>
        Math.max(6, Math.min(40, Math.floor(((width - LABELS - 4) / (captures * each + replays)) * 2) / 2));
      span = Math.ceil((DIGIT * String(sizes.at(-1) ?? 1).length + 4) / widthFor(1));
      grid.setGeometry({
        rows,
        columns: captures * span + replays,
        cellWidth: widthFor(span),
        cellHeight: Math.max(12, Math.min(30, Math.floor((height - HEADER) / rows))),
        headerWidth: LABELS,
        headerHeight: HEADER,
        maxHeight: height,
      });
    },
    reveal: (slot, index) => grid.reveal({ row: slot, column: columnOf(state().events, index, span) }),
  };
}

function capturesOf(events: readonly Event[]): number {
  const first = events.findIndex(({ kind }) => kind === "replay");
  return first < 0 ? events.length : first;
}

/** Which event a column shows, where captures have `span` columns each; −1 for the gap between captures and replays. */
export function eventOf(events: readonly Event[], column: number, span = 1): number {
  const captures = capturesOf(events);
  if (column < captures * span) return Math.floor(column / span);
  return column === captures * span ? -1 : column - captures * span + captures - 1;
}

/** The inverse: an event's first column. */
export function columnOf(events: readonly Event[], index: number, span = 1): number {
  const captures = capturesOf(events);
  return index < captures ? index * span : index - captures + captures * span + 1;
}

/** All columns of an event, for its last one, which is painted after the others; nothing for those. */
function wholeOf(event: Event, rect: Rect, column: number, span: number): Rect | undefined {
  if (event.kind !== "capture" || span === 1) return rect;
  if (column % span !== span - 1) return undefined;
  return { ...rect, x: rect.x - (span - 1) * rect.width, width: span * rect.width };
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
  span: number,
  rect: Rect,
  theme: Theme,
): void {
  const index = eventOf(events, column, span);
  const event = events[index];
  if (!event || column !== columnOf(events, index, span)) return;
  const captures = capturesOf(events);
  const before = events[index - 1];
  context.font = `${index === position - 1 ? "600 " : ""}11px ${theme.uiFont}`;
  context.fillStyle = theme.text;
  // a size is written where it changes, a number where there is room
  if (before?.bs !== event.bs || before.kind !== event.kind) {
    const room = (nextChange(events, index) - index) * (event.kind === "capture" ? span : 1);
    if (room * rect.width >= context.measureText(String(event.bs)).width + 3)
      context.fillText(String(event.bs), rect.x + 1, 9);
  }
  context.fillStyle = theme.muted;
  const every = Math.max(1, Math.ceil(28 / rect.width));
  if (event.kind === "capture") {
    const text = "captured";
    if (index === 0 && captures * span * rect.width > context.measureText(text).width)
      context.fillText(text, rect.x + 1, 25);
  } else if ((index - captures) % (every === 1 ? 1 : Math.ceil(every / 5) * 5) === 0)
    context.fillText(String(index - captures), rect.x + 1, 25);
}

function nextChange(events: readonly Event[], column: number): number {
  let next = column + 1;
  while (next < events.length && events[next]?.bs === events[column]?.bs) next += 1;
  return next;
}

function describe(event: Event | undefined, row: number): string | undefined {
  if (!event || row >= event.bs) return undefined;
  if (event.kind === "capture") return sentence(event);
  const who =
    row < event.raw
      ? (event.requests[row]?.[1] ?? "a request")
      : "padding: length 1, written to the dummy page";
  return `slot ${row}: ${who}\n${sentence(event)}`;
}
