// The colour language: a hue and a hatch for every request, so that neither is needed alone.

import { s } from "./dom";

export const OKABE_ITO = [
  "#E69F00", // orange
  "#56B4E9", // sky blue
  "#009E73", // bluish green
  "#F0E442", // yellow
  "#0072B2", // blue
  "#D55E00", // vermillion
  "#CC79A7", // reddish purple
  "#000000", // black; near-white on dark ground
] as const;

export type Hatch = "none" | "forward" | "backward" | "cross" | "horizontal" | "vertical" | "dots" | "grid";
const HATCHES: Hatch[] = ["none", "forward", "backward", "dots", "horizontal", "vertical", "cross", "grid"];

export interface Look {
  fill: string;
  hatch: Hatch;
  /** Black or white, whichever reads better on `fill`. */
  ink: string;
}

/** The look of a request, a split or anything else that is counted: eight hues, then the same hatched. */
export function lookOf(index: number, dark: boolean): Look {
  const hue = OKABE_ITO[index % OKABE_ITO.length] as string;
  const fill = dark && hue === "#000000" ? "#f5f5f5" : hue;
  const hatch = HATCHES[Math.floor(index / OKABE_ITO.length) % HATCHES.length] as Hatch;
  return { fill, hatch, ink: inkOn(fill) };
}

/** The warp roles' fixed looks. */
export const ROLE_LOOKS = {
  page_table: role("#9467BD", "dots"),
  load: role("#0072B2", "forward"),
  mma: role("#E69F00", "cross"),
  softmax: role("#009E73", "horizontal"),
  epilogue: role("#17A2A2", "backward"),
  correction: role("#7F9A2E", "vertical"),
  /** Matrix products and softmax by the same warps, as on Hopper. */
  math: role("#D55E00", "grid"),
  /** Warps without a role of their own. */
  compute: role("#D55E00", "dots"),
  idle: role("#999999", "none"),
} satisfies Record<string, Look>;

/** Asynchronous operations; the first two as the roles that issue them. */
export const OPERATION_LOOKS = {
  copy: ROLE_LOOKS.load,
  mma: ROLE_LOOKS.mma,
  tmem: role("#CC79A7", "vertical"),
} satisfies Record<string, Look>;

function role(fill: string, hatch: Hatch): Look {
  return { fill, hatch, ink: inkOn(fill) };
}

export function inkOn(fill: string): "#000000" | "#ffffff" {
  return contrast(luminance(fill), 0) >= contrast(luminance(fill), 1) ? "#000000" : "#ffffff";
}

function contrast(a: number, b: number): number {
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}

/** Relative luminance of #rrggbb (WCAG 2). */
function luminance(color: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const channel = Number.parseInt(color.slice(at, at + 2), 16) / 255;
    return channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

const CELL = 6; // px, the period of every hatch

/** One period of a hatch as SVG path data, which canvas reads as well. */
function hatchPath(hatch: Hatch): string {
  switch (hatch) {
    case "none":
      return "";
    case "forward":
      return "M-1,1 L1,-1 M0,6 L6,0 M5,7 L7,5";
    case "backward":
      return "M-1,5 L1,7 M0,0 L6,6 M5,-1 L7,1";
    case "cross":
      return "M0,6 L6,0 M0,0 L6,6";
    case "horizontal":
      return "M0,3 L6,3";
    case "vertical":
      return "M3,0 L3,6";
    case "grid":
      return "M0,3 L6,3 M3,0 L3,6";
    case "dots":
      return "M2.2,3 L3.8,3";
  }
}

function strokeWidth(hatch: Hatch): number {
  return hatch === "dots" ? 1.8 : 1;
}

/** Canvas fills by look; one per view, because patterns depend on the pixel ratio. */
export class CanvasPaint {
  #patterns = new Map<string, CanvasPattern | string>();

  /** It keeps no canvas: a page that has shown a widget keeps its module, and would keep the widget's elements, too. */
  constructor(private ratio: number) {}

  fill({ fill, hatch, ink }: Look): CanvasPattern | string {
    return hatch === "none" ? fill : this.#pattern(fill, hatch, ink);
  }

  /** Thin hatching in `ink` on any background: room that holds nothing, padding, uninitialised values. */
  empty(ink: string): CanvasPattern | string {
    return this.#pattern("transparent", "forward", ink);
  }

  #pattern(fill: string, hatch: Hatch, ink: string): CanvasPattern | string {
    const key = `${fill} ${hatch} ${ink}`;
    const known = this.#patterns.get(key);
    if (known) return known;
    const made = this.#make(fill, hatch, ink);
    this.#patterns.set(key, made);
    return made;
  }

  #make(fill: string, hatch: Hatch, ink: string): CanvasPattern | string {
    const tile = document.createElement("canvas");
    tile.width = tile.height = Math.round(CELL * this.ratio);
    const context = tile.getContext("2d");
    if (!context) return fill;
    context.fillStyle = fill;
    context.fillRect(0, 0, tile.width, tile.height);
    context.scale(tile.width / CELL, tile.height / CELL);
    context.globalAlpha = 0.6;
    context.strokeStyle = ink;
    context.lineWidth = strokeWidth(hatch);
    context.lineCap = hatch === "dots" ? "round" : "butt";
    context.stroke(new Path2D(hatchPath(hatch)));
    const pattern = context.createPattern(tile, "repeat");
    pattern?.setTransform(new DOMMatrix().scale(1 / this.ratio));
    return pattern ?? fill;
  }
}

/** A CSS background for DOM marks of this look. */
export function cssBackground({ fill, hatch, ink }: Look): string {
  if (hatch === "none") return fill;
  const svg =
    `<svg xmlns="http://www.w3.org/2000/svg" width="${CELL}" height="${CELL}">` +
    `<path d="${hatchPath(hatch)}" stroke="${ink}" stroke-opacity=".6" fill="none" ` +
    `stroke-width="${strokeWidth(hatch)}" stroke-linecap="${hatch === "dots" ? "round" : "butt"}"/></svg>`;
  return `${fill} url("data:image/svg+xml,${encodeURIComponent(svg)}")`;
}

/** SVG fills by look: patterns are added to `defs` as they are first used. */
export class SvgPaint {
  #ids = new Map<string, string>();

  constructor(
    private defs: SVGDefsElement,
    private prefix: string,
  ) {}

  fill({ fill, hatch, ink }: Look): string {
    if (hatch === "none") return fill;
    const key = fill + hatch;
    const id = this.#ids.get(key) ?? this.#add(key, fill, hatch, ink);
    return `url(#${id})`;
  }

  #add(key: string, fill: string, hatch: Hatch, ink: string): string {
    const id = `${this.prefix}-${this.#ids.size}`;
    this.#ids.set(key, id);
    const pattern = s("pattern", { id, width: CELL, height: CELL, patternUnits: "userSpaceOnUse" });
    pattern.append(
      s("rect", { width: CELL, height: CELL, fill }),
      s("path", {
        d: hatchPath(hatch),
        stroke: ink,
        "stroke-opacity": 0.6,
        "stroke-width": strokeWidth(hatch),
        "stroke-linecap": hatch === "dots" ? "round" : "butt",
      }),
    );
    this.defs.append(pattern);
    return id;
  }
}
