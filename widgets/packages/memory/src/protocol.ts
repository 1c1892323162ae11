// What SharedMemory and TensorMemory have in common: sglab/widgets/memory.py.

import {
  COMMON,
  command,
  dict,
  extend,
  int,
  list,
  none,
  optional,
  type PushedSlice,
  type Selection,
  type SliceName,
  type Source,
  text,
} from "@sglab/protocol";

/** What the session's sanitizers found in this memory. */
export interface Finding {
  text: string;
  severity: string;
  /** Of the CTA in its cluster. */
  rank: number;
  address: number;
}

export interface ShownMoment {
  /** Moments that have happened. */
  moment: number;
  /** Instructions executed. */
  position: number;
  /** Of saved moments: the one that the page opens at. */
  opens?: boolean;
}

/** An instruction of the kernel. */
export interface Code {
  line: number;
  opcode: string;
  text: string;
  source: string;
}

/** What the page will have selected once the session is there; Python adds the moment. */
const selected = optional(dict<Selection>());
const wanted = optional(list<SliceName>());

export const MEMORY = extend(COMMON, {
  traits: {
    launch: dict<{ kernel: string }>(),
    launch_key: text(),
    code: dict<Record<string, Code>>(),
    frames: list<ShownMoment>(),
    pushed: list<PushedSlice>(),
    stale: int(),
  },
  commands: {
    go: command({ moment: int(), wanted, selected }, none()),
    follow: command({ position: int(), wanted }, none()),
    catch_up: command({ wanted }, none()),
  },
  tensors: {},
});

export type MemorySource = Source<typeof MEMORY>;
