// A warp's mark: the letter of its role and its number, in the role's colour; without roles, the number alone.

import { cssBackground, h, type Look, ROLE_LOOKS } from "@sglab/core";
import type { Warp } from "./protocol";

const LETTERS: Record<string, string> = {
  page_table: "P",
  load: "L",
  mma: "M",
  softmax: "S",
  math: "X",
  correction: "C",
  compute: "K",
  epilogue: "E",
  idle: "I",
};

export function roleLook(role: string | null | undefined): Look | undefined {
  return role ? (ROLE_LOOKS as Record<string, Look>)[role] : undefined;
}

export function roleName(role: string): string {
  return role.replaceAll("_", " ");
}

/** "L5"; in a cluster the rank of its CTA comes first: "1·L5". */
export function warpLabel(warp: Warp, clusterSize: number): string {
  const letter = warp.role ? (LETTERS[warp.role] ?? (warp.role[0] ?? "").toUpperCase()) : "";
  return `${clusterSize > 1 ? `${warp.rank}·` : ""}${letter}${warp.warp}`;
}

export function warpName(warp: Pick<Warp, "cta" | "warp" | "role">): string {
  return `warp ${warp.warp} of CTA ${warp.cta}${warp.role ? ` (${roleName(warp.role)})` : ""}`;
}

/** A small block with the warp's label; `swatch` adds the hatch of its role beside it. */
export function warpMark(warp: Warp, clusterSize: number, swatch = false): HTMLElement {
  const look = roleLook(warp.role);
  const mark = h("span", { class: "kd-mark" }, warpLabel(warp, clusterSize));
  if (!look) return mark;
  mark.style.background = look.fill;
  mark.style.color = look.ink;
  if (!swatch) return mark;
  const hatch = h("span", { class: "kd-swatch", "aria-hidden": "true" });
  hatch.style.background = cssBackground(look);
  return h("span", { class: "kd-swatched" }, hatch, mark);
}
