// The words of tensor memory as they arrive, and as a picture of one pixel per cell.

import { TensorWindow } from "@sglab/core";
import { pixelOf, type Range } from "@sglab/memory/cividis";
import { firstNumber } from "@sglab/memory/words";
import { COLUMNS, LANES, type Region } from "./data";
import type { TensorMemorySource } from "./protocol";
import type { Kind, Reads } from "./reading";

/** Of each kind of numbers; undefined where there are none. */
export type Ranges = readonly (Range | undefined)[];

const CHUNK = 64; // columns fetched at a time
const SAMPLE = 5; // lanes
/** Where nothing is known of a format's numbers yet. */
export const NOTHING: Range = { low: 0, high: 0 };

export class Cells {
  #window: TensorWindow;
  /** Grows when words arrive, so that pictures made before are known to be old. */
  arrivals = 0;

  constructor(source: TensorMemorySource, arrived: () => void, failed: (error: unknown) => void) {
    const count = () => {
      this.arrivals += 1;
      arrived();
    };
    this.#window = new TensorWindow(source, "cells", CHUNK, count, failed);
  }

  /** Requests the cells of a new moment that were looked at in the last. */
  follow(): void {
    this.#window.follow();
  }

  /** 128 lanes of a column; `base` is the first row of this CTA in this frame. */
  column(base: number, column: number): ArrayLike<number> | undefined {
    return this.#window.row(base + column);
  }

  word(base: number, lane: number, column: number): number | undefined {
    return this.#window.row(base + column)?.[lane];
  }

  /** The 2nd and the 98th percentile of the finite numbers in initialised cells, from every `SAMPLE`th lane,
   * of each kind: numbers of several kinds have no common scale. */
  ranges(bases: readonly number[], written: readonly Uint8Array[], { kinds, masks }: Reads): Ranges {
    const values = kinds.map((): number[] => []);
    bases.forEach((base, cta) => {
      const mask = written[cta] as Uint8Array;
      const read = masks[cta] as Uint8Array;
      for (let column = 0; column < COLUMNS; column++) {
        const words = anyWritten(mask, column) ? this.column(base, column) : undefined;
        if (!words) continue;
        for (let lane = column % SAMPLE; lane < LANES; lane += SAMPLE) {
          const at = column * LANES + lane;
          if (!mask[at]) continue;
          const number = read[at] as number;
          const value = firstNumber(words[lane] as number, (kinds[number] as Kind).format);
          if (Number.isFinite(value)) values[number]?.push(value);
        }
      }
    });
    return values.map((numbers) => {
      const sorted = Float64Array.from(numbers).sort();
      const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))] ?? 0;
      return sorted.length ? { low: at(0.02), high: at(0.98) } : undefined;
    });
  }
}

function anyWritten(mask: Uint8Array, column: number): boolean {
  return mask.subarray(column * LANES, (column + 1) * LANES).includes(1);
}

export interface Picture {
  /** One pixel per cell; cells that were never written are transparent. */
  canvas: HTMLCanvasElement;
  /** Cells that hold NaN: lane, column, lane, column, … */
  nans: number[];
}

/** A picture of one CTA's cells; made again only when something it shows has changed. */
export class CellImage {
  #picture: Picture = { canvas: document.createElement("canvas"), nans: [] };
  #key = "";

  constructor(private cells: Cells) {}

  /** `key` names the frame. */
  of(
    key: string,
    base: number,
    written: Uint8Array,
    { kinds, masks }: Reads,
    rank: number,
    ranges: Ranges,
  ): Picture {
    const full = `${key} ${base} ${JSON.stringify(ranges)} ${this.cells.arrivals}`;
    if (this.#key === full) return this.#picture;
    this.#key = full;
    const { canvas } = this.#picture;
    const nans: number[] = [];
    canvas.width = COLUMNS;
    canvas.height = LANES;
    const context = canvas.getContext("2d") as CanvasRenderingContext2D;
    const image = context.createImageData(COLUMNS, LANES);
    const read = masks[rank] as Uint8Array;
    const pixels = new Uint32Array(image.data.buffer);
    for (let column = 0; column < COLUMNS; column++) {
      const words = anyWritten(written, column) ? this.cells.column(base, column) : undefined;
      if (!words) continue;
      for (let lane = 0; lane < LANES; lane++) {
        if (!written[column * LANES + lane]) continue;
        const number = read[column * LANES + lane] as number;
        const value = firstNumber(words[lane] as number, (kinds[number] as Kind).format);
        pixels[lane * COLUMNS + column] = pixelOf(value, ranges[number] ?? NOTHING);
        if (Number.isNaN(value)) nans.push(lane, column);
      }
    }
    context.putImageData(image, 0, 0);
    this.#picture = { canvas, nans };
    return this.#picture;
  }
}

/** 1 where a cell of this CTA has been written since it was allocated. */
export function writtenMask(regions: readonly Region[], cta: number): Uint8Array {
  const mask = new Uint8Array(COLUMNS * LANES);
  for (const r of regions) {
    if (r.cta !== cta || r.state === 0) continue;
    for (let column = r.column; column < r.column + r.columns; column++)
      mask.fill(1, column * LANES + r.lane, column * LANES + r.lane + r.lanes);
  }
  return mask;
}
