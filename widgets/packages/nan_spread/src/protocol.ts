// What crosses between the page and sglab/widgets/nan_spread.py.

import type { Opened } from "@sglab/engine/opener";
import {
  bool,
  COMMON,
  command,
  dict,
  int,
  none,
  optional,
  protocol,
  type Source,
  tensor,
} from "@sglab/protocol";

export interface Shown {
  /** Where NaN can be: memories, then the registers of warps. */
  rows: string[];
  roles: [name: string, text: string][];
  infinite: boolean;
  /** All that were found; the first ones are drawn. */
  events: number;
  truncated: boolean;
  /** The first NaN; -1: there is none. */
  first: number;
  /** Of those drawn, what made a NaN or took one in; and where later events stored it. Older recordings lack both. */
  origins?: number[];
  later?: string;
  facts: [term: string, text: string][][];
  sentences: string[];
}

export const NAN_SPREAD = protocol("nan_spread", 1, COMMON, {
  traits: { shown: dict<Shown>(), now: int() },
  commands: {
    look: command({ infinite: bool() }, none()),
    seek: command({ event: int() }, none()),
    /** Empty where the session has a debugger. */
    debug: command({ event: int(), page: optional(bool()) }, dict<Partial<Opened>>()),
  },
  tensors: {
    /** role, row, position, CTA, warp */
    events: tensor("int64", [5, "events"]),
    /** Who wrote what was read, and the reader. */
    links: tensor("int32", [2, "links"]),
  },
});

export type NanSpreadSource = Source<typeof NAN_SPREAD>;
