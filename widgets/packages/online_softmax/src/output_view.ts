// O as strips of cells: the accumulator, O / d, the float64 answer, and their difference.

import { h, pixelRatio, type Theme } from "@sglab/core";
import type { Numbers } from "@sglab/protocol";
import { number } from "./numbers";

const ROW = 18;
const LABEL = 128;
const SCALE = 74;

export interface Strip {
  label: string;
  values: Numbers | undefined;
  /** Drawn against the largest of all strips of a group. */
  group: string;
}

export interface OutputView {
  root: HTMLElement;
  paint(strips: Strip[], theme: Theme, width: number): void;
}

export function outputView(): OutputView {
  const canvas = h("canvas", { class: "sgs-output", role: "img" });
  const root = h("div", {}, canvas);
  return {
    root,
    paint(strips, theme, width) {
      const ratio = pixelRatio();
      const height = strips.length * (ROW + 4);
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
      const context = canvas.getContext("2d");
      if (!context) return;
      context.scale(ratio, ratio);
      context.font = `12px ${theme.uiFont}`;
      context.textBaseline = "middle";
      const peaks = new Map<string, number>();
      for (const { values, group } of strips)
        if (values) peaks.set(group, Math.max(peaks.get(group) ?? 0, peak(values)));
      strips.forEach(({ label, values, group }, i) => {
        const top = i * (ROW + 4);
        context.fillStyle = theme.text;
        context.fillText(label, 0, top + ROW / 2, LABEL - 6);
        const scale = peaks.get(group) ?? 0;
        drawStrip(context, values, scale, LABEL, top, Math.max(10, width - LABEL - SCALE), theme);
        context.fillStyle = theme.muted;
        const sick = values?.some((value) => Number.isNaN(value));
        context.fillText(
          sick ? "NaN" : values ? `± ${number(scale)}` : "",
          width - SCALE + 6,
          top + ROW / 2,
          SCALE - 6,
        );
      });
      canvas.setAttribute(
        "aria-label",
        strips
          .map(
            ({ label, values }) => `${label}: ${values ? `largest ${number(peak(values))}` : "nothing yet"}`,
          )
          .join("; "),
      );
    },
  };
}

function peak(values: Numbers): number {
  let largest = 0;
  for (const value of values) if (Number.isFinite(value)) largest = Math.max(largest, Math.abs(value));
  return largest;
}

function drawStrip(
  context: CanvasRenderingContext2D,
  values: Numbers | undefined,
  scale: number,
  left: number,
  top: number,
  width: number,
  theme: Theme,
): void {
  context.strokeStyle = theme.border;
  context.strokeRect(left - 0.5, top + 0.5, width + 1, ROW - 1);
  if (!values) return;
  const columns = Math.min(values.length, Math.floor(width));
  for (let column = 0; column < columns; column++) {
    const value = values[Math.floor((column * values.length) / columns)] as number;
    const x = left + (column * width) / columns;
    context.fillStyle = colour(value, scale, theme);
    context.fillRect(x, top + 1, width / columns + 0.3, ROW - 2);
  }
  if (values.some((value) => Number.isNaN(value))) drawCross(context, left, top, width, theme);
}

/** Blue below zero, orange above: even in lightness, and the theme's ground at zero. NaN is magenta. */
function colour(value: number, scale: number, theme: Theme): string {
  if (Number.isNaN(value)) return "#c2185b";
  const share = scale > 0 ? Math.min(1, Math.abs(value) / scale) : 0;
  const hue = value < 0 ? "0, 114, 178" : theme.dark ? "230, 159, 0" : "213, 94, 0";
  return `rgba(${hue}, ${(share ** 0.7).toFixed(3)})`;
}

function drawCross(
  context: CanvasRenderingContext2D,
  left: number,
  top: number,
  width: number,
  theme: Theme,
): void {
  context.strokeStyle = theme.background;
  context.beginPath();
  for (let x = left + 6; x < left + width - 10; x += 24) {
    context.moveTo(x, top + 5);
    context.lineTo(x + 8, top + ROW - 5);
    context.moveTo(x + 8, top + 5);
    context.lineTo(x, top + ROW - 5);
  }
  context.stroke();
}
