// What widgets of a recorded engine have in common: sglab/widgets/engine_lines.py.

import { COMMON, extend, int, list, type PushedSlice, type Source, tensor } from "@sglab/protocol";

export const LINES = extend(COMMON, {
  traits: { pushed: list<PushedSlice>(), size: int(), count: int() },
  commands: {},
  tensors: { lines: tensor("uint8", ["bytes"]) },
});

export type LinesSource = Source<typeof LINES>;

/** Traits of a widget that opens what a layer attended to in a step; sglab/widgets/step_opener.py. */
export const STEP_OPENER = { layers: int() };
