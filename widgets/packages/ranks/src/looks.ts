// Colours of collectives; forms repeat what colour says.

import { type Look, OPERATION_LOOKS, ROLE_LOOKS } from "@sglab/core";
import type { Kind } from "./protocol";

export const KIND_LOOKS: Record<Kind, Look> = {
  all_reduce: ROLE_LOOKS.mma,
  all_gather: ROLE_LOOKS.load,
  reduce_scatter: ROLE_LOOKS.mma, // a sum, too
  all_to_all: ROLE_LOOKS.softmax,
  send: OPERATION_LOOKS.tmem,
};
