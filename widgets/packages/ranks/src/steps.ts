// A pass as its collectives, in order.

import type { Track } from "@sglab/core";
import { endOf, layerOf, type Recorded } from "./data";
import { micros, sentence } from "./words";

export function trackOf(recorded: Recorded, selected: () => string | undefined): Track {
  const { joints } = recorded;
  const layers: number[] = [];
  joints.forEach(({ module }, at) => {
    const next = joints[at + 1];
    if (!next || layerOf(next.module) !== layerOf(module)) layers.push(at + 1);
  });
  return {
    length: joints.length,
    granularities: [
      { id: "collective", label: "collective" },
      { id: "layer", label: "layer", stops: layers },
    ],
    marks: layers.map((at) => ({ at, label: joints[at - 1]?.module ?? "" })),
    describe: (position) => sentence(recorded, position - 1),
    time: (position) => (position > 0 ? micros(endOf(recorded, position - 1)) : micros(0)),
    eventsOfSelection: () => {
      const module = selected();
      return module === undefined
        ? undefined
        : joints.flatMap((joint, at) => (joint.module.startsWith(module) ? [at + 1] : []));
    },
  };
}
