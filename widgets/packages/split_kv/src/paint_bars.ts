// Drawing the bars of lengths with their cuts. What is drawn follows from the arguments alone.

import { HATCHED_FROM, lookOf, sharedPaint, sizeCanvas, type Theme } from "@sglab/core";
import type { Numbers } from "@sglab/protocol";
import { type BarLayout, barOf, cutsOf, LABEL_HEIGHT, labelEvery, RIGHT } from "./bars";
import { type Named, nameOf, type Work } from "./data";

const CUT_APART = 3.5; // px: closer cuts would hide the bar

export function paintBars(
  canvas: HTMLCanvasElement,
  layout: BarLayout,
  lens: Numbers,
  named: Named,
  work: Work | null,
  theme: Theme,
  selected: number | undefined,
): void {
  const { plot, top } = layout;
  const context = sizeCanvas(canvas, plot.x + plot.width + RIGHT, plot.y + plot.height + LABEL_HEIGHT);
  const paint = sharedPaint();
  const cuts = cutsOf(work, lens.length);
  context.fillStyle = theme.surface;
  context.fillRect(plot.x, plot.y, plot.width, plot.height);
  for (let request = 0; request < lens.length; request++) {
    const box = barOf(layout, request, lens[request] as number);
    const look = lookOf(request, theme.dark);
    context.globalAlpha = selected !== undefined && selected !== request ? 0.45 : 1;
    context.fillStyle = box.width >= HATCHED_FROM ? paint.fill(look) : look.fill;
    context.fillRect(box.x, box.y, box.width, box.height);
    const mine = cuts.items.subarray(cuts.indptr[request], cuts.indptr[request + 1]);
    context.fillStyle = theme.background;
    if (mine.length * CUT_APART <= box.height)
      for (const each of mine) {
        const token = work?.tokenStart[each] as number;
        context.fillRect(box.x, plot.y + plot.height - (token / top) * plot.height - 0.5, box.width, 1);
      }
    context.globalAlpha = 1;
    context.font = `11px ${theme.uiFont}`;
    const splits = `×${mine.length + 1}`;
    if (mine.length > 0 && context.measureText(splits).width <= layout.column - 1) {
      context.fillStyle = theme.muted;
      context.textAlign = "center";
      context.textBaseline = "bottom";
      context.fillText(splits, box.x + box.width / 2, box.y - 1);
    }
    if (request === selected) {
      context.strokeStyle = theme.focus;
      context.lineWidth = 2;
      context.strokeRect(box.x - 1, box.y - 1, box.width + 2, box.height + 1);
    }
  }
  context.font = `11px ${theme.uiFont}`;
  context.fillStyle = theme.muted;
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const part of [0, 0.5, 1])
    context.fillText(
      shortCount(top * part),
      plot.x - 5,
      plot.y + plot.height * (1 - part) + (part === 1 ? 4 : 0),
    );
  labelBars(context, layout, lens.length, named, theme);
}

function labelBars(
  context: CanvasRenderingContext2D,
  layout: BarLayout,
  requests: number,
  named: Named,
  theme: Theme,
): void {
  const { plot, column, gap } = layout;
  const labels = Array.from({ length: requests }, (_, request) => nameOf(named, request));
  const longest = labels.reduce((most, each) => (each.length >= most.length ? each : most), "");
  const wide = context.measureText(longest).width;
  const every = labelEvery(column, wide);
  context.fillStyle = theme.muted;
  context.textBaseline = "top";
  context.textAlign = every > 1 ? "left" : "center";
  for (let request = 0; request < requests; request += every) {
    const x = plot.x + request * column + (every > 1 ? 0 : (column - gap) / 2);
    if (every > 1 && x + wide > plot.x + plot.width + RIGHT) break; // would be cut
    context.fillText(labels[request] as string, x, plot.y + plot.height + 3);
  }
  context.textAlign = "left";
}

/** 4096 → "4,096", 131072 → "131 k". */
function shortCount(value: number): string {
  return value < 100_000 ? Math.round(value).toLocaleString("en-US") : `${Math.round(value / 1000)} k`;
}
