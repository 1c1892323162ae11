// What an operation did, in sentences.

import { format } from "@sglab/core";
import type { Op } from "./protocol";

const { count, plural } = format;

/** Whether it changes which nodes there are: an insert of what the tree has, or of less than a page, does not. */
export function changesTree(op: Op): boolean {
  if (op.kind === "insert") return (op.aligned ?? 0) > (op.found ?? 0);
  if (op.kind === "evict") return Boolean(op.evicted?.length);
  return op.kind === "split" || op.kind === "load" || op.kind === "reset";
}

export function runs(pages: readonly (readonly [number, number])[]): string {
  return pages.map(([first, last]) => (first === last ? String(first) : `${first}–${last}`)).join(", ");
}

export function nameOf(requests: readonly string[], request: number): string {
  return requests[request] ?? "";
}

/** One operation; `pageSize` says what a page's border is. */
export function sentence(op: Op, requests: readonly string[], pageSize: number): string {
  const who = op.rid >= 0 ? `${nameOf(requests, op.rid)}: ` : "";
  const node = op.path?.at(-1);
  const tokens = op.tokens ?? 0;
  const found = op.found ?? 0;
  const aligned = op.aligned ?? 0; // left out where no page is full
  const tail = tokens - aligned;
  const last = tail === 1 ? "The last token fills" : `The last ${count(tail)} tokens fill`;
  const cut = tail
    ? ` ${aligned ? last : "That fills"} no page of ${pageSize}: ${aligned && tail > 1 ? "they stay" : "it stays"} out.`
    : "";
  switch (op.kind) {
    case "start":
      return op.set.length > 1
        ? "The tree as the recording found it; what was done to it before is not kept. Call engine.record() before a run to see all of it."
        : "The tree as the recording found it: empty.";
    case "reset":
      return "The tree was emptied.";
    case "match":
      return found
        ? `${who}of ${plural(tokens, "token")} looked up, the tree has ${count(found)}, down to node ${node}.${cut}`
        : `${who}of ${plural(tokens, "token")} looked up, the tree has none.${cut}`;
    case "insert": {
      const added = aligned - found;
      if (aligned === 0)
        return `${who}${plural(tokens, "token")} to insert, none of them in a whole page of ${pageSize}: nothing comes.`;
      if (added <= 0)
        return `${who}inserted ${plural(tokens, "token")}, all of whose pages the tree had.${cut}`;
      const known = found ? `, ${count(found)} of them known` : "";
      return `${who}inserted ${plural(tokens, "token")}${known}: node ${node} has the ${plural(added, "new token")}.${cut}`;
    }
    case "split": {
      const border = pageSize > 1 ? `, the border of a page of ${pageSize}` : "";
      return `${who}node ${node} was split after ${count(found)} of its ${plural(tokens, "token")}${border}: node ${op.path?.[0]} is the part that is shared.`;
    }
    case "lock": {
      const now = found
        ? ` ${plural(found, "token")} can no longer be evicted.`
        : " All of it was locked already.";
      return `${who}locked node ${node} and what is above it.${now}`;
    }
    case "unlock": {
      const now = found ? ` ${plural(found, "more token")} can be evicted now.` : " Others still lock it.";
      return `${who}unlocked node ${node} and what is above it.${now}`;
    }
    case "load":
      return `${who}${plural(found, "token")} came back from the host, down to node ${node}.`;
    case "evict": {
      const gone = op.evicted ?? [];
      if (!gone.length)
        return `Room for ${plural(tokens, "token")} was asked for; ${nothingToEvict(op.pool[2])}.`;
      const nodes = gone.map(([id]) => id).join(", ");
      return `Room for ${plural(tokens, "token")}: ${plural(gone.length, "node")} (${nodes}) with ${plural(found, "token")} evicted, least recently used first.`;
    }
  }
}

/** Why nothing can be evicted, with so many slots of the pool locked. */
export function nothingToEvict(locked: number): string {
  return locked ? "every node in the pool is locked" : "the tree has no node in the pool";
}

/** Of the leaves that an eviction left: those that are locked, and those it did not come to. */
export function safeText(locked: number, later: number, last: number): string {
  const is = (value: number, one: string, many: string) => `${count(value)} ${value === 1 ? one : many}`;
  const parts = [
    ...(locked ? [`${is(locked, "is", "are")} locked`] : []),
    ...(later ? [`${is(later, "was", "were")} used after ${count(last)} or not needed`] : []),
  ];
  return parts.length ? `Of the leaves that stay, ${parts.join(", ")}.` : "No leaf stays.";
}
