// What the marks mean: their forms say where a point comes from, lines and colours which series it is of.

import { h, type LegendItem, legendMark, s } from "@sglab/core";
import { colourOf } from "./figure";
import { type Spot, seriesOf } from "./model";
import type { Origin } from "./protocol";

const PATHS: Record<Origin, { d: string; hollow: boolean }> = {
  arithmetic: { d: "M7,1 L13,7 L7,13 L1,7 Z", hollow: true },
  emulated: { d: "M2,7 a5,5 0 1,0 10,0 a5,5 0 1,0 -10,0 Z", hollow: true },
  modelled: { d: "M2,2 h10 v10 h-10 Z", hollow: false },
  measured: { d: "M7,2 L13,12 L1,12 Z", hollow: false },
};

export function legendOf(spots: readonly Spot[], dark: boolean): LegendItem[] {
  const origins = (Object.keys(PATHS) as Origin[]).filter((each) =>
    spots.some(({ mark }) => mark.origin === each),
  );
  const items: LegendItem[] = origins.map((origin) => {
    const { d, hollow } = PATHS[origin];
    const mark = s("svg", { width: 14, height: 14, "aria-hidden": "true", class: "srf-mark" });
    mark.append(
      s("path", { d, fill: hollow ? "none" : "currentColor", stroke: "currentColor", "stroke-width": 2 }),
    );
    const where = hollow ? "no time: on its roof" : "by its time";
    return { label: `${origin} (${where})`, mark: mark as unknown as HTMLElement };
  });
  for (const [number, name] of seriesOf(spots).entries()) {
    if (!name) continue;
    const line = h("i", { class: "sg-legend-mark sg-legend-line", "aria-hidden": "true" });
    line.style.borderTopColor = colourOf(number, dark);
    items.push({ label: name, mark: line });
  }
  if (spots.length) items.push({ label: "selected", mark: legendMark("outline") });
  return items;
}
