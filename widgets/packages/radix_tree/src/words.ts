// What an operation did, in sentences.

import { format } from "@sglab/core";
import type { Op } from "./protocol";

const { count, plural } = format;

export function runs(pages: readonly (readonly [number, number])[]): string {
  return pages.map(([first, last]) => (first === last ? String(first) : `${first}–${last}`)).join(", ");
}

export function nameOf(requests: readonly string[], request: number): string {
  return requests[request] ?? "";
}

/** One operation; `pageSize` says what a page's border is. */
export function sentence(op: Op, requests: readonly string[], pageSize: number): string {
  const who = op.rid >= 0 ? `${nameOf(requests, op.rid)}: ` : "";
  const last = op.path?.at(-1);
  const tokens = op.tokens ?? 0;
  const found = op.found ?? 0;
  const tail = tokens - (op.aligned ?? tokens);
  const cut = tail ? ` The last ${plural(tail, "token")} fill no page of ${pageSize}: they stay out.` : "";
  switch (op.kind) {
    case "start":
      return "The tree as the recording found it.";
    case "reset":
      return "The tree was emptied.";
    case "match":
      return found
        ? `${who}of ${plural(tokens, "token")} looked up, the tree has ${count(found)}, down to node ${last}.${cut}`
        : `${who}of ${plural(tokens, "token")} looked up, the tree has none.${cut}`;
    case "insert": {
      const added = (op.aligned ?? tokens) - found;
      if ((op.aligned ?? tokens) === 0)
        return `${who}${plural(tokens, "token")} to insert, none of them in a whole page of ${pageSize}: nothing comes.`;
      if (added <= 0)
        return `${who}inserted ${plural(tokens, "token")}, all of whose pages the tree had.${cut}`;
      const known = found ? `, ${count(found)} of them known` : "";
      return `${who}inserted ${plural(tokens, "token")}${known}: node ${last} has the ${plural(added, "new token")}.${cut}`;
    }
    case "split": {
      const border = pageSize > 1 ? `, the border of a page of ${pageSize}` : "";
      return `${who}node ${last} was split after ${count(found)} of its ${plural(tokens, "token")}${border}: node ${op.path?.[0]} is the part that is shared.`;
    }
    case "lock": {
      const now = found
        ? ` ${plural(found, "token")} can no longer be evicted.`
        : " All of it was locked already.";
      return `${who}locked node ${last} and what is above it.${now}`;
    }
    case "unlock": {
      const now = found ? ` ${plural(found, "token")} can be evicted now.` : " Others still lock it.";
      return `${who}unlocked node ${last} and what is above it.${now}`;
    }
    case "load":
      return `${who}${plural(found, "token")} came back from the host, down to node ${last}.`;
    case "evict": {
      const gone = op.evicted ?? [];
      if (!gone.length) return `Room for ${plural(tokens, "token")} was asked for; every node is locked.`;
      const nodes = gone.map(([node]) => node).join(", ");
      return `Room for ${plural(tokens, "token")}: ${plural(gone.length, "node")} (${nodes}) with ${plural(found, "token")} evicted, least recently used first.`;
    }
  }
}
