// The head's scores along the request: stems as they arrive, the running maximum, the splits' band below.

import { format, lookOf, type SvgPaint, s, type Theme } from "@sglab/core";
import type { Recorded } from "./data";
import { type Base, number } from "./numbers";
import { extent, levels, masked, type Scale, stems, ticks } from "./scores_shapes";

const HEIGHT = 148;
const LEFT = 44;
const RIGHT = 8;
const TOP = 8;
const BAND = 16;
const AXIS = 15;
const BAND_BOTTOM = HEIGHT - AXIS;

export interface ScoresShown {
  recorded: Recorded;
  base: Base;
  /** Tiles whose scores have arrived; the last of them is the current one while `current`. */
  seen: number;
  current: number | undefined;
  /** Base-2 running maximum after each tile, NaN where the formula keeps none. */
  tops: number[];
  selectedSplit: number | undefined;
}

export function tokenAt(recorded: Recorded, width: number, x: number): number {
  const share = (x - LEFT) / Math.max(1, width - LEFT - RIGHT);
  return Math.max(0, Math.min(recorded.scores.length - 1, Math.floor(share * recorded.scores.length)));
}

export function drawScores(
  svg: SVGSVGElement,
  shown: ScoresShown,
  paint: SvgPaint,
  theme: Theme,
  width: number,
): void {
  const { recorded, seen, base } = shown;
  const { scores, tiles } = recorded;
  const unit = base === "2" ? 1 : Math.LN2;
  const [low, high] = extent(scores);
  const x = (token: number) => LEFT + ((width - LEFT - RIGHT) * token) / scores.length;
  const bottom = BAND_BOTTOM - BAND - 6;
  const y = (score: number) => TOP + ((bottom - TOP) * (high - score)) / (high - low);
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  svg.setAttribute("width", String(width));
  svg.setAttribute("height", String(HEIGHT));
  svg.replaceChildren(...[...svg.children].filter((child) => child.tagName === "defs"));

  for (const value of levels(low, high)) {
    svg.append(
      s("line", { x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value), class: "sgs-grid" }),
      s(
        "text",
        { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end", class: "sgs-axis" },
        number(Number((value * unit).toFixed(1))),
      ),
    );
  }
  const arrivedUntil = seen > 0 ? (tiles[seen - 1]?.end ?? 0) : 0;
  if (arrivedUntil < scores.length)
    svg.append(
      s("rect", {
        x: x(arrivedUntil),
        y: TOP,
        width: width - RIGHT - x(arrivedUntil),
        height: bottom - TOP,
        class: "sgs-future",
      }),
    );
  const tile = shown.current === undefined ? undefined : tiles[shown.current];
  if (tile)
    svg.append(
      s("rect", {
        x: x(tile.start),
        y: TOP - 4,
        width: Math.max(2, x(tile.end) - x(tile.start)),
        height: bottom - TOP + 8,
        class: "sgs-tile",
      }),
    );
  const upTo = tile ? tile.start : arrivedUntil;
  svg.append(
    s("path", { d: stems(scores, 0, upTo, x, y, y(Math.max(low, Math.min(high, 0)))), class: "sgs-stems" }),
  );
  if (tile)
    svg.append(
      s("path", {
        d: stems(scores, tile.start, tile.end, x, y, y(Math.max(low, Math.min(high, 0)))),
        class: "sgs-stems sgs-now",
      }),
    );
  for (const [from, to] of masked(scores, tile ? tile.end : arrivedUntil)) {
    const box = { x: x(from), y: TOP, width: x(to) - x(from), height: bottom - TOP };
    svg.append(s("rect", { ...box, class: "sgs-masked" }));
    if (box.width > 40)
      svg.append(
        s(
          "text",
          { x: x((from + to) / 2), y: bottom - 5, "text-anchor": "middle", class: "sgs-axis" },
          "−inf",
        ),
      );
  }
  svg.append(s("path", { d: staircase(shown, x, y), class: "sgs-maximum" }));

  recorded.steps.forEach((steps, split) => {
    if (!steps) return;
    const from = x(tiles[steps.first]?.start ?? 0);
    const to = x(tiles[steps.last]?.end ?? 0);
    const look = lookOf(split, theme.dark);
    const selected = shown.selectedSplit === split;
    const dimmed = shown.selectedSplit !== undefined && !selected;
    svg.append(
      s("rect", {
        x: from + 0.5,
        y: BAND_BOTTOM - BAND,
        width: Math.max(1, to - from - 1),
        height: BAND - 2,
        fill: paint.fill(look),
        class: selected ? "sgs-selected" : "sgs-band",
        opacity: dimmed ? 0.35 : 1,
      }),
    );
    if (to - from > (look.hatch === "none" ? 26 : 60))
      svg.append(
        s(
          "text",
          {
            x: (from + to) / 2,
            y: BAND_BOTTOM - 5,
            "text-anchor": "middle",
            fill: dimmed ? theme.text : look.ink,
            class: "sgs-split",
          },
          `s${split}`,
        ),
      );
  });
  const legend = { x: LEFT - 5, "text-anchor": "end", class: "sgs-axis" };
  svg.append(
    s("text", { ...legend, y: BAND_BOTTOM - 5 }, "split"),
    s("text", { ...legend, y: HEIGHT - 3 }, "key"),
    ...ticks(scores.length, Math.max(2, (width - LEFT - RIGHT) / 110)).map((key) => {
      const anchor = key === 0 ? "start" : "middle";
      return s(
        "text",
        { x: x(key), y: HEIGHT - 3, "text-anchor": anchor, class: "sgs-axis" },
        format.count(key),
      );
    }),
  );
  svg.setAttribute(
    "aria-label",
    `Scores of ${format.plural(scores.length, "key")}, ${format.count(arrivedUntil)} arrived, from ${number(low * unit)} to ${number(high * unit)}`,
  );
}

/** The running maximum over the tiles that have been taken in, restarted in every split. */
function staircase({ recorded, tops }: ScoresShown, x: Scale, y: Scale): string {
  let split = -1;
  return tops
    .map((value, step) => {
      const tile = recorded.tiles[step];
      if (!tile || !Number.isFinite(value)) return "";
      const move = tile.split === split ? "L" : "M";
      split = tile.split;
      return `${move}${x(tile.start).toFixed(1)},${y(value).toFixed(1)}H${x(tile.end).toFixed(1)}`;
    })
    .join("");
}
