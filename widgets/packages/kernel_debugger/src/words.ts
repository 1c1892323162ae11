// Sentences and numbers that several views share.

import { format } from "@sglab/core";
import type { Group, State, Warp } from "./protocol";

/** What the reader is told of an error. Of a saved page, a value that is not there is one of another version's. */
export function errorText(error: unknown, live: boolean): string {
  if (!live && error instanceof TypeError)
    return "What was saved lacks something that this version of sglab shows: another version wrote it, or it is damaged.";
  return (error as Error).message;
}

/** What a group of lanes waits for and since when; an mbarrier by its name, where it has one. */
export function duringWait(state: State, warp: Warp, [, , wait, key, since, sentence]: Group): string {
  const from = since === null ? "" : `, since step ${format.count(since)}`;
  if (wait !== "mbarrier") return `${sentence}${from}`;
  const name = mbarrierName(state, key);
  return `waits for ${name || `mbarrier ${sharedAddress(key, warp.rank)}`}${from}`;
}

/** The name of the mbarrier at a shared::cluster address, such as "load→mma full[1]". */
export function mbarrierName(state: State, address: number): string {
  const cta = state.ctas.find(([linear, , , , , rank]) => {
    const shown = state.warps.some((warp) => warp.cta === linear);
    return shown && rank === address >>> 24;
  })?.[0];
  const found = state.mbarriers.find((each) => each.cta === cta && each.offset === (address & 0xffffff));
  return found?.name ?? "";
}

/** A shared::cluster address: "smem+0x430", of another CTA "smem of rank 1+0x430". */
export function sharedAddress(address: number, ownRank?: number): string {
  const rank = address >>> 24;
  const offset = address & 0xffffff;
  if (ownRank === undefined || rank === ownRank) return format.address("smem", offset);
  return `rank ${rank} ${format.address("smem", offset)}`;
}

/** How the notebook's selection names an mbarrier: CTA / kind / offset. */
export function barrierKey(cta: number, offset: number): string {
  return `${cta}/mbarrier/0x${offset.toString(16)}`;
}

/** "all lanes", "lane 3", "lanes 1–31"; lanes here and there as a mask. */
export function maskText(mask: number): string {
  const bits = mask >>> 0;
  if (bits === 0xffffffff) return "all lanes";
  const first = 31 - Math.clz32(bits & -bits);
  const last = 31 - Math.clz32(bits);
  if (bits === 2 ** (last + 1) - 2 ** first)
    return first === last ? `lane ${first}` : `lanes ${first}–${last}`;
  return `lanes 0x${bits.toString(16).padStart(8, "0")}`;
}

/** Instead of registers, where there are none. */
export function withoutRegisters(running: boolean, exited: boolean): string {
  if (!running) return "No warp is running, so there are no registers: step back (←) to see some.";
  if (exited) return "This warp has exited. Choose another, or step back (←).";
  return "No register of this warp holds a value yet, or none that will still be read: step (→), and they come.";
}
