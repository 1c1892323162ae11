// The whole window from end to end: variables, boxes, operands, barriers, and what warps are about to access.

import { cssBackground, h, inkOn, type Look, lookOf, SvgPaint, s, uniqueId } from "@sglab/core";
import { smem } from "./data";
import type { Area, FrameInfo } from "./protocol";
import { chunkRuns } from "./track";

const BANDS: { kinds: Area["kind"][]; label: string }[] = [
  { kinds: ["reserved", "symbol", "dynamic"], label: "variables" },
  { kinds: ["tile", "copy"], label: "copies" },
  { kinds: ["operand"], label: "operands" },
  { kinds: ["mbarrier"], label: "mbarriers" },
];
const LEFT = 70;
const BAND = 19;
const TOP = 18;

const LOOKS: Record<Area["kind"], Look> = {
  reserved: { fill: "#999999", hatch: "forward", ink: "#000000" },
  symbol: look("#CC79A7", "none"),
  dynamic: look("#bbbbbb", "none"),
  tile: look("#56B4E9", "none"),
  copy: look("#56B4E9", "dots"),
  operand: look("#E69F00", "none"),
  mbarrier: look("#D55E00", "none"),
};

function look(fill: string, hatch: Look["hatch"]): Look {
  return { fill, hatch, ink: inkOn(fill) };
}

export interface StripOptions {
  areas: readonly Area[];
  bytes: number;
  width: number;
  pick: (area: Area) => void;
}

export interface StripMoment {
  frame: FrameInfo | undefined;
  /** Bytes that the grids show. */
  shown: [number, number];
  /** Of what just happened. */
  touched: readonly [number, number][];
}

export interface Strip {
  svg: SVGSVGElement;
  /** Redraws what depends on the moment, and nothing else. */
  show(moment: StripMoment): void;
}

/** Operands of one tile are on top of each other: the widest first. */
export function makeStrip({ areas, bytes, width, pick }: StripOptions): Strip {
  const bands = BANDS.filter(({ kinds }) => areas.some((area) => kinds.includes(area.kind)));
  const height = TOP + (bands.length + 1) * BAND + 4;
  const x = (offset: number) => LEFT + (offset / Math.max(1, bytes)) * (width - LEFT - 8);
  const defs = s("defs");
  const paint = new SvgPaint(defs, uniqueId("strip"));
  const svg = s("svg", {
    class: "ssm-strip",
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `The CTA's ${bytes.toLocaleString("en-US")} bytes of shared memory and what is in them`,
  });
  svg.append(defs);
  const step = [1, 2, 4, 8, 16, 32, 64].find((kib) => (width - LEFT) / (bytes / 1024 / kib) > 52) ?? 64;
  for (let at = 0; at <= bytes; at += step * 1024) {
    svg.append(s("line", { x1: x(at), x2: x(at), y1: TOP - 4, y2: height, class: "ssm-tick" }));
    if (x(at) + 46 < width)
      svg.append(s("text", { x: x(at) + 3, y: 11, class: "ssm-axis" }, `${at / 1024} KiB`));
  }
  bands.forEach(({ kinds, label }, i) => {
    const y = TOP + i * BAND;
    svg.append(s("text", { x: 2, y: y + 13, class: "ssm-axis" }, label));
    const mine = areas.filter((area) => kinds.includes(area.kind)).sort((a, b) => b.bytes - a.bytes);
    for (const area of mine) svg.append(mark(area, x, y, paint, pick));
  });
  const now = TOP + bands.length * BAND;
  const layer = s("g");
  svg.append(s("text", { x: 2, y: now + 13, class: "ssm-axis" }, "now"), layer);
  return {
    svg,
    show: ({ frame, shown, touched }) =>
      layer.replaceChildren(...nowBars(frame, touched, x, now), ...shownBox(shown, x, height)),
  };
}

/** What just happened, what is about to, and what is on its way. */
function nowBars(
  frame: FrameInfo | undefined,
  touched: readonly [number, number][],
  x: (offset: number) => number,
  y: number,
): SVGElement[] {
  const happened = touched.map(([from, to]) => bar(x, y, from, to, "ssm-touched", "just happened"));
  const accesses = (frame?.accesses ?? []).flatMap((access) => {
    const title = `warp ${access.warp}: access ${access.when}`;
    const look = access.when === "just made" ? "ssm-touched" : "ssm-access";
    return chunkRuns(access).map(([from, to]) => bar(x, y, from, to, look, title));
  });
  const flying = (frame?.inFlight ?? []).map((one) => {
    const from = one.start & 0xffffff;
    return bar(x, y, from, from + Math.max(16, one.bytes), "ssm-flying", `in flight: ${one.text}`);
  });
  return [...happened, ...accesses, ...flying];
}

function shownBox([from, to]: [number, number], x: (offset: number) => number, height: number): SVGElement[] {
  if (to <= from) return [];
  const width = Math.max(4, x(to) - x(from) + 3);
  return [s("rect", { x: x(from) - 1.5, y: TOP - 3, width, height: height - TOP + 2, class: "ssm-shown" })];
}

function mark(
  area: Area,
  x: (offset: number) => number,
  y: number,
  paint: SvgPaint,
  pick: (area: Area) => void,
): SVGElement {
  const left = x(area.start);
  const wide = Math.max(2, x(area.start + area.bytes) - left);
  const group = s("g", { class: "ssm-area" });
  const end = area.start + area.bytes;
  group.append(
    s(
      "title",
      {},
      `${area.name}\n${smem(area.start)} to ${smem(end)}, ${area.bytes.toLocaleString("en-US")} bytes`,
    ),
    s("rect", { x: left, y: y + 2, width: wide, height: BAND - 4, fill: paint.fill(LOOKS[area.kind]) }),
  );
  if (wide > 7 * area.name.length + 8)
    group.append(
      s("text", { x: left + 4, y: y + 13, class: "ssm-name", fill: LOOKS[area.kind].ink }, area.name),
    );
  group.addEventListener("click", () => pick(area));
  return group;
}

function bar(
  x: (offset: number) => number,
  y: number,
  from: number,
  to: number,
  name: string,
  title: string,
): SVGElement {
  const group = s("g", {}, s("title", {}, `${title}: ${smem(from)} to ${smem(to)}`));
  group.append(
    s("rect", { x: x(from), y: y + 3, width: Math.max(3, x(to) - x(from)), height: BAND - 6, class: name }),
  );
  return group;
}

/** What the marks in the strip's last row mean. */
export function momentKey(): HTMLElement {
  const marks = [
    ["ssm-touched", "just touched"],
    ["ssm-access", "about to be"],
    ["ssm-flying", "copy in flight"],
  ].flatMap(([name, text]) => {
    const attributes = { x: 1, y: 1, width: 18, height: 11, class: name as string };
    return [
      s(
        "svg",
        { width: 20, height: 13, class: "ssm-mark-key", "aria-hidden": "true" },
        s("rect", attributes),
      ),
      h("span", {}, text as string),
    ];
  });
  return h("span", { class: "ssm-key" }, "now:", ...marks);
}

export function chunkKey(dark: boolean): HTMLElement {
  const swatches = Array.from({ length: 8 }, (_, i) => {
    const look = lookOf(i, dark);
    const swatch = h("span", { class: "ssm-swatch" }, String(i));
    swatch.style.background = cssBackground(look);
    swatch.style.color = look.ink;
    return swatch;
  });
  return h("span", { class: "ssm-key" }, "16-byte chunk of the matrix row:", ...swatches, unwrittenKey());
}

export function unwrittenKey(): HTMLElement {
  return h("span", { class: "ssm-key" }, h("span", { class: "ssm-swatch ssm-unwritten" }), "not written yet");
}
