// The steps of a launch: every instruction, or the moments at which something of interest happens.

import { format, type Mark, type Track } from "@sglab/core";
import type { Launch } from "./data";
import type { Relations } from "./relations";
import { sentenceOf } from "./sentences";

const MARKS = 160;

export function trackOf(
  launch: Launch,
  relations: Relations,
  eventsOfSelection: () => ArrayLike<number> | undefined,
): Track {
  const { events } = launch;
  return {
    length: events.size,
    granularities: [
      { id: "instruction", label: "instruction" },
      { id: "line", label: "source line", stops: lineStops(launch) },
      { id: "event", label: "event", stops: eventStops(launch) },
      { id: "role", label: "role", stops: roleStops(launch) },
    ],
    marks: marksOf(launch),
    describe: (step) => sentenceOf(launch, relations, step),
    time: (step) => timeAt(launch, step),
    eventsOfSelection,
  };
}

/** The time at a step; in issue order, where the cluster is not the whole launch, the position in that. */
export function timeAt({ clock, places, meta }: Launch, step: number): string {
  if (clock.timed) {
    const time = clock.at(Math.max(0, step - 1));
    const begin = format.duration(0);
    return step > 0 || time === begin ? time : `${begin}, the first event at ${time}`;
  }
  return places.size === meta.length ? "" : `position ${format.count(places.positionAt(step))} of the launch`;
}

/** After the last instruction of each source line that a warp executes in a row. */
function lineStops({ events, code }: Launch): Int32Array {
  const lines = code.lineNumbers();
  return stopsWhere(
    events.size,
    (i) =>
      events.row[i] !== events.row[i + 1] ||
      lines[events.pc[i] as number] !== lines[events.pc[i + 1] as number],
  );
}

/** Where another role continues. */
function roleStops({ events, meta }: Launch): Int32Array {
  return stopsWhere(
    events.size,
    (i) => meta.roles[events.row[i] as number] !== meta.roles[events.row[i + 1] as number],
  );
}

function stopsWhere(size: number, ends: (index: number) => boolean): Int32Array {
  const stops: number[] = [];
  for (let i = 0; i < size; i++) if (i === size - 1 || ends(i)) stops.push(i + 1);
  return Int32Array.from(stops);
}

/** After everything that a barrier or an asynchronous operation has to do with. */
function eventStops({ waits, actions, operations, places }: Launch): Int32Array {
  const steps = new Set<number>();
  const add = (event: number) => {
    const index = places.indexOf(event);
    if (index >= 0) steps.add(index + 1);
  };
  waits.event.forEach(add);
  actions.event.forEach(add);
  operations.event.forEach(add);
  operations.done.forEach((done) => {
    steps.add(places.stepBehind(done));
  });
  return Int32Array.from(steps).sort();
}

export function marksOf({ phases, places, meta }: Launch): Mark[] {
  const every = Math.max(1, Math.ceil(phases.size / MARKS));
  const marks: Mark[] = [];
  for (let i = 0; i < phases.size; i += every)
    marks.push({
      at: places.stepBehind(phases.position[i] as number),
      label: `phase ${phases.number[i]} of ${meta.barriers[phases.barrier[i] as number]?.name} ends`,
    });
  return marks;
}
