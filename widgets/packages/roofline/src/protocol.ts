// What crosses between the page and sglab/widgets/roofline.py.

import {
  COMMON,
  command,
  dict,
  int,
  list,
  none,
  optional,
  protocol,
  type Source,
  tensor,
  text,
} from "@sglab/protocol";

export type Origin = "arithmetic" | "emulated" | "modelled" | "measured";

/** Where a point's work is under the roofs of one machine. */
export interface Place {
  /** The arithmetic that takes longest; flops are its own. */
  kind: string;
  flops: number;
  intensity: number;
  attainable: number;
  bound: "memory" | "compute";
  /** At that rate. */
  seconds: number;
}

export interface Mark {
  label: string;
  origin: Origin;
  /** How long it took, and on which machine; null and "": nothing says so. */
  seconds: number | null;
  machine: string;
  series: string;
  how: string;
  flops: [kind: string, count: number][];
  bytes: number;
  requestedBytes: number | null;
  /** By machine; without those that have no published peak for its arithmetic. */
  at: Record<string, Place>;
  /** Widgets that can show its launch. */
  opens: string[];
}

export interface Machine {
  name: string;
  product: string;
  /** kind: "memory", or a kind of arithmetic; rate: bytes or FLOPs per second. */
  ceilings: [kind: string, rate: number, source: string][];
}

export interface Texts {
  origins: Record<string, string>;
  pipes: Record<string, string>;
  attention: Record<string, string>;
}

export interface Opened {
  widget: string;
  title: string;
  model: string;
  page: string;
}

export const ROOFLINE = protocol("roofline", 1, COMMON, {
  traits: { machine: text(), machines: list<Machine>(), marks: list<Mark>(), texts: dict<Texts>() },
  commands: {
    show: command({ machine: text() }, none()),
    add_attention: command(
      {
        kind: text(),
        batch: int(),
        length: int(),
        num_heads: int(),
        num_kv_heads: optional(int()),
        head_dim: optional(int()),
        dtype: optional(text()),
      },
      none(),
    ),
    remove: command({ point: int() }, none()),
    open_launch: command({ widget: text(), point: int() }, dict<Opened>()),
  },
  /** The library that draws: an ES module. */
  tensors: { plotly: tensor("uint8", ["bytes"]) },
});

export type RooflineSource = Source<typeof ROOFLINE>;
