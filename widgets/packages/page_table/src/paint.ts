// How the cells of the three views look. Colour says which request; hatch, label and mark say it again.

import { type Look, lookOf, type Rect, sharedPaint, type Theme } from "@sglab/core";

export const READ = { light: "#0072B2", dark: "#56B4E9" };
export const WRITE = { light: "#D55E00", dark: "#E69F00" };

export class Painter {
  constructor(readonly theme: () => Theme) {}

  look(hue: number): Look {
    return lookOf(hue, this.theme().dark);
  }

  fill(look: Look): CanvasPattern | string {
    return sharedPaint().fill(look);
  }

  /** Neutral ground with a border: a free page, an empty cell. */
  neutral(context: CanvasRenderingContext2D, { x, y, width, height }: Rect): void {
    const { surface, border } = this.theme();
    context.fillStyle = surface;
    context.fillRect(x, y, width, height);
    context.strokeStyle = border;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
  }

  /** Thin grey hatching: room that holds nothing, or padding. */
  empty(context: CanvasRenderingContext2D, { x, y, width, height }: Rect): void {
    context.fillStyle = sharedPaint().empty(this.theme().muted);
    context.fillRect(x, y, width, height);
  }

  cross(context: CanvasRenderingContext2D, { x, y, width, height }: Rect): void {
    context.strokeStyle = this.theme().muted;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x + 2, y + 2);
    context.lineTo(x + width - 2, y + height - 2);
    context.moveTo(x + width - 2, y + 2);
    context.lineTo(x + 2, y + height - 2);
    context.stroke();
  }

  /** Text on a plate of its ground's plain colour, so that hatching does not cut through it. */
  plated(
    context: CanvasRenderingContext2D,
    text: string,
    centre: { x: number; y: number },
    plate: string,
    ink: string,
    size: number,
    bold = false,
  ): void {
    context.font = this.font(size, bold);
    context.textAlign = "center";
    const width = context.measureText(text).width + 4;
    context.fillStyle = plate;
    context.fillRect(centre.x - width / 2, centre.y - size / 2 - 1, width, size + 2);
    context.fillStyle = ink;
    context.fillText(text, centre.x, centre.y + 0.5);
  }

  text(
    context: CanvasRenderingContext2D,
    text: string,
    x: number,
    y: number,
    color: string,
    size = 11,
  ): void {
    context.font = this.font(size);
    context.fillStyle = color;
    context.fillText(text, x, y + 0.5);
  }

  font(size: number, bold = false): string {
    return `${bold ? "600 " : ""}${size}px ${this.theme().uiFont || "sans-serif"}`;
  }

  outline(
    context: CanvasRenderingContext2D,
    { x, y, width, height }: Rect,
    color: string,
    dash: number[] = [],
  ): void {
    context.strokeStyle = color;
    context.lineWidth = 2;
    context.setLineDash(dash);
    context.strokeRect(x + 1, y + 1, width - 2, height - 2);
    context.setLineDash([]);
  }

  /** An outline with a letter in its corner: R for read, W for written. A gap sets it off from any ground. */
  flag(context: CanvasRenderingContext2D, rect: Rect, kind: "R" | "W"): void {
    const color = (kind === "R" ? READ : WRITE)[this.theme().dark ? "dark" : "light"];
    context.strokeStyle = this.theme().background;
    context.lineWidth = 1.5;
    context.strokeRect(rect.x + 2.75, rect.y + 2.75, rect.width - 5.5, rect.height - 5.5);
    this.outline(context, rect, color);
    context.fillStyle = color;
    context.fillRect(rect.x, rect.y, 9, 10);
    context.font = this.font(9, true);
    context.textAlign = "center";
    context.fillStyle = this.theme().dark ? "#000000" : "#ffffff";
    context.fillText(kind, rect.x + 4.5, rect.y + 5.5);
  }
}
