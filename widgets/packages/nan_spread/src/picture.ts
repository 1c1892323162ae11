// The picture: events from left to right in their order, a row for each place where NaN can be, lines from writer to reader.

import { s, type Theme } from "@sglab/core";
import type { Role, Spread } from "./model";

const ROW = { few: 30, many: 20 }; // px
const FEW = 9;
const LABEL = 120;
const TOP = 12;
const EDGE = 16;
const PALE = 0.4; // what has not happened
const CROWDED = 9; // px between events: closer marks have no edges
const HUES: Record<Role, string> = {
  made: "#D55E00",
  came: "#CC79A7",
  spread: "#56B4E9",
  stored: "#009E73",
  stopped: "#999999",
};

export const hueOf = (role: Role): string => HUES[role];

/** A mark of 11 px around its middle, by role: form says what colour says. */
export function markPath(role: Role, x: number, y: number): string {
  switch (role) {
    case "made":
      return `M${x},${y - 6} L${x + 6},${y + 5} L${x - 6},${y + 5} Z`;
    case "came":
      return `M${x},${y - 6} L${x + 6},${y} L${x},${y + 6} L${x - 6},${y} Z`;
    case "stored":
      return `M${x - 5},${y - 5} h10 v10 h-10 Z`;
    case "stopped":
      return `M${x - 4},${y - 4} L${x + 4},${y + 4} M${x + 4},${y - 4} L${x - 4},${y + 4}`;
    case "spread":
      return `M${x - 4.5},${y} a4.5,4.5 0 1,0 9,0 a4.5,4.5 0 1,0 -9,0 Z`;
  }
}

export interface Scene {
  spread: Spread;
  /** Events below have happened; the last of them is the selected one. */
  lit: number;
  width: number;
  theme: Theme;
}

export interface Picture {
  svg: SVGSVGElement;
  /** The event nearest to a point, within reach. */
  at(x: number, y: number): number | undefined;
}

export function draw({ spread, lit, width, theme }: Scene): Picture {
  const rows = spread.shown.rows.length;
  const tall = rows > FEW ? ROW.many : ROW.few;
  const height = TOP + rows * tall + 4;
  const step = spread.size > 1 ? (width - LABEL - 2 * EDGE) / (spread.size - 1) : 0;
  const x = (event: number) => LABEL + EDGE + event * Math.min(step, 90);
  const y = (event: number) => TOP + spread.row(event) * tall + tall / 2;
  const svg = s("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "How NaN spread",
  });
  spread.shown.rows.forEach((name, row) => {
    const middle = TOP + row * tall + tall / 2;
    svg.append(
      s("line", { x1: LABEL, x2: width, y1: middle, y2: middle, stroke: theme.border }),
      s(
        "text",
        { x: 2, y: middle + 4, fill: theme.text, "font-size": 12, "font-family": theme.uiFont },
        name,
      ),
    );
  });
  const selected = lit - 1;
  const way = selected >= 0 ? spread.way(selected) : [];
  const links: string[] = [];
  for (let child = 0; child < Math.min(lit, spread.size); child++)
    for (const parent of spread.parents[child] ?? [])
      links.push(curve(x(parent), y(parent), x(child), y(child)));
  svg.append(
    s("path", { d: links.join(" "), fill: "none", stroke: theme.muted, "stroke-width": 1, opacity: 0.35 }),
  );
  const bold = way.slice(1).map((event, i) => {
    const before = way[i] as number;
    return curve(x(before), y(before), x(event), y(event));
  });
  svg.append(s("path", { d: bold.join(" "), fill: "none", stroke: theme.focus, "stroke-width": 2.5 }));
  for (let event = 0; event < spread.size; event++) {
    const role = spread.role(event);
    const mark = s("path", {
      d: markPath(role, x(event), y(event)),
      fill: role === "stopped" ? "none" : hueOf(role),
      stroke: role === "stopped" ? hueOf(role) : step < CROWDED ? "none" : theme.background,
      "stroke-width": role === "stopped" ? 2 : 1,
      opacity: event < lit ? 1 : PALE,
    });
    svg.append(mark);
  }
  if (selected >= 0)
    svg.append(
      s("rect", {
        x: x(selected) - 9,
        y: y(selected) - 9,
        width: 18,
        height: 18,
        rx: 3,
        fill: "none",
        stroke: theme.focus,
        "stroke-width": 2,
      }),
    );
  return {
    svg,
    at(px, py) {
      let best: number | undefined;
      let least = 14;
      for (let event = 0; event < spread.size; event++) {
        const distance = Math.hypot(x(event) - px, (y(event) - py) / 1.4);
        if (distance < least) [least, best] = [distance, event];
      }
      return best;
    },
  };
}

function curve(x1: number, y1: number, x2: number, y2: number): string {
  const middle = (x1 + x2) / 2;
  const lift = y1 === y2 ? Math.min(12, (x2 - x1) / 4) : 0;
  return `M${x1},${y1} C${middle},${y1 - lift} ${middle},${y2 - lift} ${x2},${y2}`;
}
