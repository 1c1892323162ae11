// Sentences and numbers that several views share.

import { format } from "../core";

/** "waits for mbarrier …" with how long. */
export function duringWait(sentence: string, since: number | null): string {
  return since === null ? sentence : `${sentence}, since ${format.count(since)}`;
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

export function maskText(mask: number): string {
  return mask >>> 0 === 0xffffffff ? "all lanes" : `lanes 0x${(mask >>> 0).toString(16).padStart(8, "0")}`;
}
