// How registers are painted: a cell per lane, their names and summaries, the lanes' numbers.

import type { CanvasPaint, Rect, Theme } from "@sglab/core";
import { colorOf, inkFor, NAN_COLOR, type Range } from "@sglab/memory/cividis";
import { type NumberFormat, numberOf, type Register, textOf } from "./registers";

/** A register as a row. operand: of the instruction at which the warp is; range and summary: of its lanes' values. */
export interface RegisterLine {
  register: Register;
  operand: boolean;
  range: Range;
  summary: string;
}

export interface RegistersLook {
  theme: Theme;
  paint: CanvasPaint;
  /** Lanes of the group. */
  mask: number;
  format: NumberFormat;
  /** Numbers rather than colours. */
  values: boolean;
  /** The register whose lanes are listed. */
  picked: string | undefined;
  /** Room for names, pixels. */
  nameWidth: number;
}

export function paintCell(
  context: CanvasRenderingContext2D,
  { register, range }: RegisterLine,
  lane: number,
  rect: Rect,
  { theme, paint, mask, format, values }: RegistersLook,
): void {
  const { x, y, width, height } = rect;
  const active = (mask >>> lane) & 1;
  const value = numberOf(register, lane, format);
  const inner = [x + 0.5, y + 1, width - 1, height - 2] as const;
  if (!active) {
    context.fillStyle = paint.empty(theme.border);
    context.fillRect(...inner);
    if (!values) return;
  } else if (register.size === 0) {
    context.strokeStyle = theme.muted;
    context.strokeRect(x + 2.5, y + 4.5, width - 5, height - 9);
    context.fillStyle = theme.text;
    if (value) context.fillRect(x + 3, y + 5, width - 6, height - 10);
    return;
  } else if (!values || register.changed) {
    const plain = values || range.low === range.high; // one value everywhere needs no colour
    context.fillStyle = plain && !Number.isNaN(value) ? theme.surface : colorOf(value, range);
    context.fillRect(...inner);
    if (Number.isNaN(value) && !values) cross(context, rect);
  }
  if (!values) return;
  context.font = `12px ${theme.codeFont}`;
  context.textAlign = "right";
  context.fillStyle = active ? (Number.isNaN(value) ? NAN_COLOR : theme.text) : theme.muted;
  context.fillText(textOf(register, lane, format), x + width - 4, y + height / 2);
}

export function paintName(
  context: CanvasRenderingContext2D,
  { register, operand, summary }: RegisterLine,
  { x, y, width, height }: Rect,
  { theme, picked, values, nameWidth }: RegistersLook,
): void {
  const middle = y + height / 2;
  context.textAlign = "left";
  if (register.name === picked) {
    context.fillStyle = theme.surface;
    context.fillRect(x, y, width, height);
  }
  context.fillStyle = theme.text;
  if (register.changed) {
    context.beginPath();
    context.moveTo(x + 2, middle - 4);
    context.lineTo(x + 8, middle);
    context.lineTo(x + 2, middle + 4);
    context.fill();
  }
  context.font = `${operand || register.changed ? "bold " : ""}12px ${theme.codeFont}`;
  context.fillText(register.name, x + 12, middle);
  const typeAt = nameWidth + 12;
  context.fillStyle = theme.muted;
  context.font = `11px ${theme.codeFont}`;
  context.fillText(register.type, x + typeAt, middle);
  if (values) return;
  context.fillStyle = theme.text;
  context.fillText(summary, x + typeAt + 34, middle, width - typeAt - 40);
}

export function paintLane(
  context: CanvasRenderingContext2D,
  lane: number,
  { x, y, width, height }: Rect,
  { theme, values }: RegistersLook,
): void {
  if (!values && lane % 4 !== 0) return;
  context.font = `11px ${theme.uiFont}`;
  context.textAlign = values ? "right" : "left";
  context.fillStyle = theme.muted;
  context.fillText(String(lane), values ? x + width - 4 : x + 2, y + height / 2);
}

function cross(context: CanvasRenderingContext2D, { x, y, width, height }: Rect): void {
  context.strokeStyle = inkFor(Number.NaN, { low: 0, high: 1 });
  context.beginPath();
  context.moveTo(x + 4, y + 5);
  context.lineTo(x + width - 4, y + height - 5);
  context.moveTo(x + width - 4, y + 5);
  context.lineTo(x + 4, y + height - 5);
  context.stroke();
}
