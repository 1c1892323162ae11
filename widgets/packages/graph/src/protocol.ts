// What crosses between the page and sglab/widgets/graph.py.

import type { Opened } from "@sglab/engine/opener";
import { LINES, STEP_OPENER } from "@sglab/engine/protocol";
import { command, dict, int, list, protocol, text } from "@sglab/protocol";

export interface Capture {
  kind: "capture";
  bs: number;
  warm_ups: number;
  launches: number;
}

export interface Replay {
  kind: "replay";
  /** Requests of the batch; the slots beyond are padding. */
  raw: number;
  bs: number;
  /** The engine's; -1: not known. */
  step: number;
  /** Number and name of the request in each slot. */
  requests: [number, string][];
  /** By name, `bs` values each; empty for a replay from before the log. */
  inputs: Record<string, number[]>;
}

export type Event = Capture | Replay;
/** Name, what it reads, what it writes: numbers of addresses. */
export type Launch = [string, number[], number[]];
/** Hex, name. */
export type Address = [string, string];

/** What a new tensor under an old name does; empty: it was not tried. */
export interface Probe {
  name?: string;
  recorded?: string;
  fresh?: string;
  message?: string;
  unseen?: number;
  seen?: number;
}

export const GRAPH = protocol("graph", 1, LINES, {
  traits: {
    ...STEP_OPENER,
    sizes: list<number>(),
    launches: list<Launch[]>(),
    addresses: list<Address>(),
    probe: dict<Probe>(),
    without: dict<Record<string, number>>(),
  },
  commands: {
    open_attention: command({ widget: text(), step: int(), layer: int() }, dict<Opened>()),
  },
  tensors: {},
});
