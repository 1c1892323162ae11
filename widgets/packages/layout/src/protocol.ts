// What crosses between the page and sglab/widgets/layout.py.

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

export interface Shown {
  /** What was typed or named. */
  asked: string;
  text: string;
  space: "smem" | "registers" | "tmem";
  rows: number;
  columns: number;
  elementBits: number;
  placeRows: number;
  placeColumns: number;
  /** Elements per register. */
  parts: number;
  element: string;
  order: string;
  orders: [name: string, text: string][];
  /** What was asked for, and what a lane takes at once. */
  laneBytes: number;
  laneBytesOffered: number[];
  takenBytes: number;
  /** A sentence per access, register or warp. */
  steps: string[];
  passes: number[];
  least: number[];
  said: string;
}

export const LAYOUT = protocol("layout", 1, COMMON, {
  traits: { shown: dict<Shown>(), offered: list<[text: string, label: string]>(), elements: list<string>() },
  commands: {
    show: command(
      {
        layout: optional(text()),
        element: optional(text()),
        order: optional(text()),
        lane_bytes: optional(int()),
      },
      none(),
    ),
  },
  /** Of every element, row by row: place, lane, register, part, group, phase. */
  tensors: { cells: tensor("int32", [6, "elements"]) },
});

export type LayoutSource = Source<typeof LAYOUT>;
