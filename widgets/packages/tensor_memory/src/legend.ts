// What the colours and hatches of the current mode mean.

import { cssBackground, h } from "@sglab/core";
import type { Range } from "@sglab/memory/cividis";
import { scaleParts, whoName } from "@sglab/memory/parts";
import { FORMAT_LABELS } from "@sglab/memory/words";
import type { Ranges } from "./cells";
import { type Region, STATES } from "./data";
import { categoryOf, type Mode } from "./looks";
import type { Kind } from "./reading";
import { type Facts, tileName } from "./words";

const LABELS: Record<string, string> = {
  written: STATES[1],
  read: STATES[2],
  dead: STATES[3],
  stored: "stored or copied there, no A or D of an MMA",
};

function key(swatch: HTMLElement, text: string): HTMLElement {
  return h("span", { class: "stm-key" }, swatch, text);
}

function plain(kind: string): HTMLElement {
  return h("span", { class: "stm-swatch", "data-kind": kind, "aria-hidden": "true" });
}

export function legendParts(
  facts: Facts,
  mode: Mode,
  regions: readonly Region[],
  kinds: readonly Kind[],
  ranges: Ranges,
  dark: boolean,
  warp: { rank: number; warp: number } | undefined,
): HTMLElement[] {
  const parts: HTMLElement[] = [];
  if (mode === "values" && !regions.some(({ state }) => state > 0))
    parts.push(h("span", {}, "nothing that is allocated now has been written"));
  else if (mode === "values") {
    const shown = kinds.flatMap((kind, i) => (ranges[i] ? [[kind, ranges[i]] as const] : []));
    const packed = shown.some(([{ format }]) => !["f32", "f16", "s32", "hex"].includes(format));
    const scales = shown.map(([{ of, format }, range]): [string, Range] => [
      of ? `${of}, ${FORMAT_LABELS[format]}` : FORMAT_LABELS[format],
      range,
    ]);
    parts.push(...scaleParts(scales, packed ? "a cell of several numbers has the colour of its first" : ""));
  } else {
    const seen = new Map<string, HTMLElement>();
    for (const region of regions) {
      const category = categoryOf(facts, mode, region, dark);
      if (!category || seen.has(category.key)) continue;
      const swatch = h("span", { class: "stm-swatch", "aria-hidden": "true" });
      swatch.style.background = cssBackground(category.look);
      const tile = mode === "owner" ? facts.tiles[region.tile] : undefined;
      const label =
        mode === "writer" && category.key !== "none"
          ? category.key
          : tile
            ? tileName(tile)
            : (LABELS[category.label] ?? category.label);
      seen.set(category.key, key(swatch, label));
    }
    parts.push(...seen.values());
  }
  parts.push(
    key(plain("empty"), "allocated, uninitialised"),
    key(plain("free"), "free"),
    key(plain("touched"), "touched by this step"),
  );
  if (warp) {
    const who = whoName(facts.launch.roles, facts.launch.ctas[warp.rank] as number, warp.warp);
    parts.push(key(plain("unreached"), `pale: out of reach of ${who} · Esc shows all alike`));
  }
  return parts;
}
