// How much of each stretch of a line is covered, at every zoom: stretches twice as long from level to level.

import type { Spans } from "./spans";

export interface Level {
  /** Units per bin. */
  readonly width: number;
  /** Covered units of each bin. */
  readonly cover: Float32Array;
  /** The look that covers most of it. */
  readonly look: Uint8Array;
}

const LEAST_BINS = 1 << 10;
const MOST_BINS = 1 << 17;

/** Bins of the finest level: some spans per bin, so that what is finer can be drawn span by span. */
export function finestBins(spans: number): number {
  return Math.min(MOST_BINS, Math.max(LEAST_BINS, 2 ** Math.ceil(Math.log2(Math.max(1, spans) / 2))));
}

export class Pyramid {
  readonly levels: Level[];

  constructor(spans: Spans, length: number) {
    const bins = finestBins(spans.size);
    this.levels = [finest(spans, Math.max(1, length) / bins, bins)];
    for (let size = bins; size > 64; size /= 2) this.levels.push(coarser(this.levels.at(-1) as Level));
  }

  /** The coarsest level whose bins are at most `units` wide; undefined where even the finest are wider. */
  levelFor(units: number): Level | undefined {
    const finest = (this.levels[0] as Level).width;
    const wanted = Math.floor(Math.log2(units / finest) + 1e-9);
    return wanted < 0 ? undefined : this.levels[Math.min(wanted, this.levels.length - 1)];
  }
}

function finest(spans: Spans, width: number, bins: number): Level {
  const cover = new Float32Array(bins);
  const look = new Uint8Array(bins);
  const most = new Float32Array(bins);
  for (let i = 0; i < spans.size; i++) {
    const start = spans.start[i] as number;
    const end = spans.end[i] as number;
    const last = Math.min(bins - 1, Math.floor(end / width));
    for (let bin = Math.min(bins - 1, Math.floor(start / width)); bin <= last; bin++) {
      const part = Math.min(end, (bin + 1) * width) - Math.max(start, bin * width);
      if (part <= 0) continue;
      cover[bin] = (cover[bin] as number) + part;
      if (part <= (most[bin] as number)) continue;
      most[bin] = part;
      look[bin] = spans.look[i] as number;
    }
  }
  return { width, cover, look };
}

function coarser(level: Level): Level {
  const size = level.cover.length / 2;
  const cover = new Float32Array(size);
  const look = new Uint8Array(size);
  for (let bin = 0; bin < size; bin++) {
    const left = level.cover[2 * bin] as number;
    const right = level.cover[2 * bin + 1] as number;
    cover[bin] = left + right;
    look[bin] = level.look[left >= right ? 2 * bin : 2 * bin + 1] as number;
  }
  return { width: level.width * 2, cover, look };
}
