// What the categories look like: a hue and a hatch each, so that neither is needed alone.

import { inkOn, type Look, lookOf } from "@sglab/core";
import type { Region } from "./data";
import { type Facts, whoAt } from "./words";

export const MODES = ["owner", "values", "liveness", "writer"] as const;
export type Mode = (typeof MODES)[number];
export const MODE_LABELS: Record<Mode, string> = {
  owner: "owner",
  values: "values",
  liveness: "liveness",
  writer: "last writer",
};

function fixed(fill: string, hatch: Look["hatch"]): Look {
  return { fill, hatch, ink: inkOn(fill) };
}

/** By Region.state; uninitialised cells have a look of their own, thin hatching on the ground. */
const LIVENESS: Look[] = [
  fixed("#888888", "forward"),
  fixed("#56B4E9", "dots"),
  fixed("#009E73", "none"),
  fixed("#8a8a8a", "cross"),
];

export interface Category {
  key: string;
  label: string;
  look: Look;
}

/** What a region counts as in a mode; undefined: uninitialised. */
export function categoryOf(facts: Facts, mode: Mode, region: Region, dark: boolean): Category | undefined {
  if (region.state === 0) return undefined;
  if (mode === "liveness")
    return {
      key: String(region.state),
      label: ["", "written", "read", "dead"][region.state] as string,
      look: LIVENESS[region.state] as Look,
    };
  if (mode === "writer") {
    if (region.writer < 0) return { key: "none", label: "?", look: fixed("#999999", "none") };
    const warp = facts.moments.warp[region.writer] as number;
    return { key: whoAt(facts, region.writer), label: `warp ${warp}`, look: lookOf(warp, dark) };
  }
  const tile = facts.tiles[region.tile];
  if (!tile) return { key: "registers", label: "stored", look: fixed("#b0b0b0", "dots") };
  return { key: `tile ${tile.id}`, label: tile.name, look: lookOf(tile.id, dark) };
}
