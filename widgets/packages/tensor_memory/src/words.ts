// Sentences about moments, cells and matrices.

import { whoName } from "@sglab/memory/parts";
import type { Code } from "@sglab/memory/protocol";
import { addressText, KINDS, type Moments, type Region, STATES } from "./data";
import type { Launch, Tile } from "./protocol";

export interface Facts {
  launch: Launch;
  moments: Moments;
  code: Record<string, Code>;
  tiles: Tile[];
  /** By pc of a load or a store, the type of the elements that it moves. */
  elements: Record<string, string>;
}

export function tileName(tile: Tile): string {
  return `${tile.name} (${tile.rows}×${tile.columns} ${tile.type})`;
}

/** Where the parts of a matrix are: "rows 0–63, columns 0–127 in CTA 0, lanes 0–63, from column 128". */
export function blockTexts({ launch }: Facts, tile: Tile): string[] {
  return (tile.blocks as [number, number, number, number, number, number, number][]).map(
    ([rank, lane, lanes, column, columns, row, first]) =>
      `rows ${row}–${row + lanes - 1}, ${tile.role === "A" ? "k" : "columns"} ` +
      `${first}–${first + Math.min(columns * tile.packed, tile.columns) - 1}: CTA ${launch.ctas[rank]}, ` +
      `lanes ${lane}–${lane + lanes - 1}, columns ${column}–${column + columns - 1}`,
  );
}

export function codeOf({ moments, code }: Facts, moment: number): Code | undefined {
  return code[String(moments.pc[moment])];
}

/** "warp 8 (mma) of CTA 0" */
export function whoAt({ moments, launch }: Facts, moment: number): string {
  return whoName(launch.roles, moments.cta[moment] as number, moments.warp[moment] as number);
}

function placeText({ moments }: Facts, moment: number): string {
  const [lane, lanes, column, columns] = [0, 1, 2, 3].map((i) => moments.place[moment * 4 + i] as number) as [
    number,
    number,
    number,
    number,
  ];
  if (!lanes) return "";
  return `lanes ${lane}–${lane + lanes - 1}, columns ${column}–${column + columns - 1}`;
}

/** What happened at a moment. */
export function momentSentence(facts: Facts, moment: number): string {
  const carried = facts.moments.carried[moment] as number;
  const done = carried
    ? ` Now ${carried === 1 ? "one operation" : `${carried} operations`} issued before ${carried === 1 ? "is" : "are"} carried out.`
    : "";
  return eventSentence(facts, moment) + done;
}

function eventSentence(facts: Facts, moment: number): string {
  const { moments, tiles } = facts;
  const Who = whoAt(facts, moment).replace("warp", "Warp");
  const opcode = codeOf(facts, moment)?.opcode ?? "";
  const place = placeText(facts, moment);
  const columns = place.replace(/^.*, /, "");
  const tile = tiles[moments.tile[moment] as number];
  switch (KINDS[moments.kind[moment] as number]) {
    case "alloc":
      return `${Who} allocates ${columns}.`;
    case "dealloc":
      return `${Who} frees ${columns}.`;
    case "st":
      return `${Who} stores registers to ${place}.`;
    case "ld":
      return `${Who} loads ${place} into registers.`;
    case "mma":
      return `${Who} issues ${opcode}: ${tile ? tileName(tile) : "D"} in ${columns}.`;
    case "cp":
      return `${Who} copies shared memory to ${place}.`;
    case "shift":
      return `${Who} shifts lanes down in ${place}.`;
    case "commit":
      return `${Who} commits: an mbarrier will hear when the MMAs so far are done.`;
    default:
      return `${Who} executes ${opcode}.`;
  }
}

/** "tcgen05.mma by warp 4 of CTA 0, step 120, PTX line 88" */
export function eventText(facts: Facts, moment: number): string {
  if (moment < 0) return "none";
  const code = codeOf(facts, moment);
  const line = code ? `, PTX line ${code.line}${code.source ? ` (${code.source})` : ""}` : "";
  const opcode = code?.opcode.split(".").slice(0, 2).join(".") ?? "?";
  return `${opcode} by ${whoAt(facts, moment)}, step ${moment + 1}${line}`;
}

/** Who allocated a column that is allocated now; -1 where the launch does not show it. */
export function allocatorOf({ moments, launch }: Facts, now: number, rank: number, column: number): number {
  for (let moment = now - 1; moment >= 0; moment--) {
    const [first, columns] = [2, 3].map((i) => moments.place[moment * 4 + i] as number) as [number, number];
    const allocates = KINDS[moments.kind[moment] as number] === "alloc";
    const here = moments.cta[moment] === launch.ctas[rank];
    if (allocates && here && column >= first && column < first + columns) return moment;
  }
  return -1;
}

export function stateText(region: Region | undefined): string {
  return region ? (STATES[region.state] as string) : "not allocated";
}

/** "warps 1, 5, 9; with the shape .32x32b by their lane 8" */
export function reachText(lane: number, warps: number): string {
  const mine = warpsOfLane(lane, warps);
  return `${warpList(mine)}${mine.length ? `; with the shape .32x32b by lane ${lane % 32}` : ""}`;
}

/** The warps of a CTA that may access a lane with tcgen05.ld and st. */
export function warpsOfLane(lane: number, warps: number): number[] {
  const quarter = Math.floor(lane / 32);
  return Array.from({ length: warps }, (_, warp) => warp).filter((warp) => warp % 4 === quarter);
}

export function warpList(warps: number[]): string {
  return warps.length ? `warp${warps.length > 1 ? "s" : ""} ${warps.join(", ")}` : "no warp of this CTA";
}

export function cellTitle(launch: Launch, rank: number, lane: number, column: number): string {
  return `${addressText(lane, column)} of CTA ${launch.ctas[rank]}`;
}
