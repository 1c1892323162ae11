// What every widget has: sglab/widgets/base.py.

import { command, type Declaration, type Extended, extend, type Protocol } from "./declare";
import type { DType, Tensor } from "./tensor";
import { bool, dict, int, list, none, optional, text } from "./value";

export interface Badge {
  /** Where the picture comes from: "emulated sm_100a", "H100 measured", "modelled time", "planner". */
  text: string;
  /** A sentence of detail for hover. */
  title: string;
}

export interface Header {
  title: string;
  /** What is shown: kernel or planner, shapes. */
  subject: string;
  /** The kernel's name as its module has it, where the subject has a shorter one. */
  whole?: string;
  badge: Badge;
}

/** What a notebook has selected. */
export interface Selection {
  /** Its number in a batch. */
  request?: number;
  /** Its name, which it has in every batch: see `requestsOf` of the core. */
  rid?: string;
  page?: number;
  slot?: number;
  token?: number;
  /** How many tokens of the request, from `token` on. */
  tokens?: number;
  split?: number;
  work?: number;
  cta?: number;
  sm?: number;
  warp?: number;
  barrier?: string;
  address?: string;
  moment?: number;
  /** Whose moment, or address in a CTA, it is: see `momentsOf` of the core. */
  launch?: string;
}

/** As Python and the page exchange it: `by` says who selected, `turn` counts, `at` is where the widget's session was. */
export interface Selected extends Selection {
  by?: "python" | "page";
  turn?: number;
  at?: number;
}

/** Rows `start` to `stop` of a named tensor. */
export interface SliceName {
  name: string;
  start: number;
  stop: number;
}

/** Rows that Python sent along with a revision, without being asked for them: the trait `pushed`, where a widget has it. */
export interface PushedSlice extends SliceName {
  dtype: DType;
  shape: number[];
  data: DataView;
}

export const COMMON = {
  traits: {
    version: int(),
    scope: text(),
    revision: int(),
    selected: dict<Selected>(),
    launch_name: text(),
    header: dict<Header>(),
    outdated: text(),
    picture_place: text(),
  },
  commands: {
    slices: command({ slices: list<SliceName>() }, list<Tensor>()),
    run_again: command({}, text()),
    keep_picture: command({ picture: text(), dark: optional(bool()) }, none()),
  },
  tensors: {},
};

export type Common = typeof COMMON;

/** The protocol of a widget: the common one, or one that extends it, and the widget's own. */
export function protocol<
  const Name extends string,
  const Version extends number,
  Base extends Common,
  Own extends Declaration,
>(
  name: Name,
  version: Version,
  base: Base,
  own: Own,
): Extended<Base, Own> & Pick<Protocol<Name, Version>, "name" | "version"> {
  return { name, version, ...extend(base, own) };
}
