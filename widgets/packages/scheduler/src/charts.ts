// Under the board, step by step: tokens of each pass, the KV pool's pages, the new-token ratio.

import { format, h, type Rect, sharedPaint, sizeCanvas, type Theme } from "@sglab/core";
import { HELD } from "@sglab/engine/held";
import { poolTop } from "@sglab/engine/pool_top";
import { LABELS } from "./board";
import { newTokens, parts, type Run } from "./model";
import type { Facts, Step } from "./protocol";

const GAP = 7;
/** Of all three; they grow with the room that the board leaves. */
export const LEAST_CHARTS = 160;
const MOST_CHARTS = 330;

/** The board's columns on the screen. */
export interface Columns {
  width: number;
  cell: number;
  scrolled: number;
}

export interface Charts {
  canvas: HTMLCanvasElement;
  paint(run: Run, facts: Facts, position: number, columns: Columns, height: number, theme: Theme): void;
  /** The step at a place of the canvas; undefined beside the columns. */
  stepAt(x: number): number | undefined;
  describe(run: Run, facts: Facts, step: number): string;
}

export const POOL_PARTS = ["private", "protected", "evictable", "free"] as const;

/** Tones with hatches: whose slots they are, not which request's. */
export function poolFill(part: (typeof POOL_PARTS)[number], theme: Theme): string | CanvasPattern {
  if (part === "private" || part === "protected") return HELD[part][theme.dark ? "dark" : "light"];
  if (part === "evictable") return sharedPaint().empty(theme.text);
  return theme.surface;
}

export function makeCharts(): Charts {
  const canvas = h("canvas", { class: "ssc-charts", role: "img", "data-picture": "" });
  let shown: Columns = { width: 0, cell: 1, scrolled: 0 };
  let steps = 0;

  return {
    canvas,
    paint(run, facts, position, columns, height, theme) {
      shown = columns;
      steps = run.steps.length;
      const whole = Math.max(LEAST_CHARTS, Math.min(MOST_CHARTS, height));
      const rest = whole - 2 * GAP - 4;
      const [tall, deep, low] = [0.36, 0.42, 0.22].map((share) => Math.floor(rest * share)) as [
        number,
        number,
        number,
      ];
      const context = sizeCanvas(canvas, columns.width, whole);
      context.textBaseline = "middle";
      const first = Math.max(0, Math.floor(columns.scrolled / columns.cell));
      const last = Math.min(steps, Math.ceil((columns.scrolled + columns.width - LABELS) / columns.cell));
      const at = run.steps[position - 1];
      const each = (y: number, height: number, draw: (step: Step, rect: Rect) => void) => {
        context.save();
        context.beginPath();
        context.rect(LABELS, y - 1, columns.width - LABELS, height + 2);
        context.clip();
        for (let i = first; i < last; i++) {
          context.globalAlpha = i >= position ? 0.25 : 1;
          const left = LABELS + i * columns.cell - columns.scrolled;
          const x = Math.round(left); // whole pixels, as the cells above
          draw(run.steps[i] as Step, { x, y, width: Math.round(left + columns.cell) - x, height });
        }
        context.globalAlpha = 1;
        context.restore();
      };
      const axis = (y: number, height: number, name: string, value: string) => {
        context.strokeStyle = theme.border;
        context.strokeRect(LABELS - 0.5, y - 0.5, columns.width - LABELS, height + 1);
        context.font = `11px ${theme.uiFont}`;
        context.fillStyle = theme.muted;
        context.fillText(name, 2, y + 8);
        context.fillStyle = theme.text;
        context.fillText(value, 2, y + 22);
      };

      let y = 1;
      axis(y, tall, "tokens / step", at ? format.count(newTokens(at)) : "");
      context.fillStyle = theme.muted;
      context.fillText(`of ${format.count(run.most)}`, 2, y + 36);
      each(y, tall, (step, rect) => {
        const sums = parts(step);
        const width = rect.width - (columns.cell >= 8 ? 1 : 0);
        let base = rect.y + rect.height;
        for (const part of ["decode", "chunk", "prefill"] as const) {
          const bar = (sums[part] / run.most) * rect.height;
          if (!bar) continue;
          base -= bar;
          context.fillStyle = part === "decode" ? theme.muted : theme.text;
          context.fillRect(rect.x, base, width, bar);
          if (part === "chunk") {
            context.fillStyle = sharedPaint().empty(theme.background);
            context.fillRect(rect.x, base, width, bar);
          }
        }
      });

      y += tall + GAP;
      const pages = (slots: number) => Math.ceil(slots / facts.page_size);
      const used = at ? facts.pool_size - at.pool[0] - at.pool[1] : 0;
      const unit = facts.page_size === 1 ? "slots" : "pages";
      axis(y, deep, `KV ${unit}`, at ? `${format.count(pages(used))} held` : "");
      context.fillStyle = theme.muted;
      const top = poolTop(facts.pool_size - run.leastFree, facts.pool_size);
      context.fillText(`of ${format.count(pages(facts.pool_size))}`, 2, y + 36);
      if (top < facts.pool_size) context.fillText(`chart: to ${format.count(pages(top))}`, 2, y + 50);
      each(y, deep, (step, rect) => {
        const [free, evictable, locked, own] = step.pool;
        const slots = { private: own, protected: locked, evictable, free };
        let base = rect.y + rect.height;
        for (const part of POOL_PARTS) {
          const bar = Math.min((slots[part] / top) * rect.height, base - rect.y); // of what is free, what there is room for
          base -= bar;
          context.fillStyle = poolFill(part, theme);
          context.fillRect(rect.x, base, rect.width, bar);
        }
        if (step.evicted) {
          context.fillStyle = theme.warning;
          context.fillRect(rect.x, rect.y, rect.width, 4);
        }
      });

      y += deep + GAP;
      axis(y, low, "new-token ratio", at ? at.ratio.toFixed(3) : "");
      let before: number | undefined;
      each(y, low, (step, rect) => {
        const level = rect.y + rect.height * (1 - step.ratio);
        context.strokeStyle = theme.text;
        context.lineWidth = 1.5;
        context.beginPath();
        context.moveTo(rect.x, before ?? level);
        context.lineTo(rect.x, level);
        context.lineTo(rect.x + rect.width, level);
        context.stroke();
        before = level;
      });
      if (position > 0) {
        const x = Math.round(LABELS + position * columns.cell - columns.scrolled) - 1;
        context.fillStyle = theme.focus;
        if (x >= LABELS) context.fillRect(x, 0, 1.5, whole);
      }
      canvas.setAttribute(
        "aria-label",
        `Tokens, KV pool and new-token ratio of ${format.plural(steps, "step")}`,
      );
    },
    stepAt(x) {
      const step = Math.floor((x - LABELS + shown.scrolled) / shown.cell);
      return x >= LABELS && step >= 0 && step < steps ? step : undefined;
    },
    describe(run, facts, index) {
      const step = run.steps[index] as Step;
      const { prefill, chunk, decode } = parts(step);
      const [free, evictable, locked, own] = step.pool;
      const evicted = step.evicted ? `\nevicted: ${format.plural(step.evicted, "token")}` : "";
      return (
        `step ${index}: ${format.plural(prefill, "token")} prefilled, ${chunk} in chunks, ${decode} decoded\n` +
        `slots: ${format.count(own)} of running requests alone, ${format.count(locked)} in the tree and locked, ` +
        `${format.count(evictable)} evictable, ${format.count(free)} free of ${format.count(facts.pool_size)}${evicted}\n` +
        `new-token ratio ${step.ratio}`
      );
    },
  };
}
