// Colours of collectives; forms repeat what colour says.

import { type Look, OPERATION_LOOKS, ROLE_LOOKS } from "@sglab/core";
import type { Joint, Kind } from "./protocol";
import { NAMES } from "./words";

export const KIND_LOOKS: Record<Kind, Look> = {
  all_reduce: ROLE_LOOKS.mma,
  all_gather: ROLE_LOOKS.load,
  reduce_scatter: ROLE_LOOKS.mma, // a sum, too
  all_to_all: ROLE_LOOKS.softmax,
  send: OPERATION_LOOKS.tmem,
};

/** The looks of a pass's collectives, each with the names of the kinds that have it. */
export function kindsOf(joints: readonly Joint[]): { names: string[]; look: Look }[] {
  const found = new Map<Look, string[]>();
  for (const kind of Object.keys(KIND_LOOKS) as Kind[]) {
    if (!joints.some((joint) => joint.kind === kind)) continue;
    const look = KIND_LOOKS[kind];
    found.set(look, [...(found.get(look) ?? []), NAMES[kind]]);
  }
  return [...found].map(([look, names]) => ({ names, look }));
}
