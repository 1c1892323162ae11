// The recorded run as a track of the transport: one position per moment.

import type { Track } from "@sglab/core";
import type { PageTableModel } from "./model";
import type { Shared } from "./shared";
import { describeMoments } from "./words";

export function trackOf(model: PageTableModel, shared: Shared): Track {
  const entry = model.kernel === "flashmla" ? "page" : "token";
  return {
    length: model.run.moments,
    granularities: [
      { id: "entry", label: `one ${entry}` },
      { id: "step", label: "vector step", stops: model.stepEnds },
      { id: "program", label: "request", stops: model.programEnds },
    ],
    marks: model.requests.map(({ name, index }) => ({
      at: model.programEnds[index] as number,
      label: `${name} done`,
    })),
    describe: (position) => describeMoments(model, shared.transport.previous, position),
    eventsOfSelection: () => momentsOfRequest(model, shared.selected.request),
  };
}

/** The positions right after each moment of a request's program. */
function momentsOfRequest(model: PageTableModel, request: number | undefined): Int32Array | undefined {
  if (request === undefined || request >= model.requests.length) return undefined;
  const from = request ? (model.programEnds[request - 1] as number) : 0;
  const count = (model.programEnds[request] as number) - from;
  return Int32Array.from({ length: count }, (_, i) => from + i + 1);
}
