// The steps of a launch as barriers see it: every change of one, every end of a phase, or every instruction.

import { format, type Track } from "@sglab/core";
import type { Launch } from "@sglab/launch/data";
import { warpAndRole } from "@sglab/launch/names";
import type { Relations } from "@sglab/launch/relations";
import { sentenceOf } from "@sglab/launch/sentences";
import type { BarrierStates } from "@sglab/launch/states";
import { marksOf, timeAt } from "@sglab/launch/stops";
import { pendingText, waitersSentence } from "./cells";

export function trackOf(
  launch: Launch,
  relations: Relations,
  states: BarrierStates,
  selected: () => number | undefined,
): Track {
  const { places, phases, meta, states: table } = launch;
  const changes = ascending(Array.from(table.position, (position) => places.stepBehind(position)));
  const ends = ascending(Array.from(phases.position, (position) => places.stepBehind(position)));
  const endsAt = new Map<number, number[]>();
  for (let i = 0; i < phases.size; i++) {
    const step = places.stepBehind(phases.position[i] as number);
    endsAt.set(step, [...(endsAt.get(step) ?? []), i]);
  }
  return {
    length: places.size,
    granularities: [
      { id: "instruction", label: "instruction" },
      { id: "change", label: "change", stops: changes },
      { id: "phase", label: "end of a phase", stops: ends },
    ],
    marks: marksOf(launch),
    describe: (step) => {
      const chosen = selected();
      const ended = endsOf(launch, relations, (endsAt.get(step) ?? []).slice(0, 2));
      const now =
        chosen === undefined
          ? ""
          : ` ${meta.barriers[chosen]?.name}: ${pendingText(states.at(chosen, step))}${waitersSentence(launch, states.waitingAt(chosen, step), places.positionAt(step))}`;
      return (ended.length ? ended.join(" ") : sentenceOf(launch, relations, step)) + now;
    },
    time: (step) => timeAt(launch, step),
    eventsOfSelection: () => {
      const chosen = selected();
      return chosen === undefined ? undefined : ascending([...(states.changes[chosen]?.steps ?? [])]);
    },
  };
}

/** Barriers of two CTAs may have one name; where both are meant, the CTA tells them apart. */
function endsOf(launch: Launch, relations: Relations, ended: number[]): string[] {
  const { phases, meta } = launch;
  const barriers = ended.map((phase) => meta.barriers[phases.barrier[phase] as number]);
  const names = new Set(barriers.map((barrier) => barrier?.name));
  return ended.map((phase, i) => {
    const { name = "", rank = 0 } = barriers[i] ?? {};
    const whose = names.size < ended.length ? ` of CTA ${meta.ctas[rank]}` : "";
    return endOf(launch, relations, phase, `${name}${whose}`);
  });
}

function endOf(launch: Launch, relations: Relations, phase: number, name: string): string {
  const { phases, events, places } = launch;
  const index = places.indexOf(phases.event[phase] as number);
  const who = index < 0 ? "" : ` by ${warpAndRole(launch, events.row[index] as number)}`;
  const released = relations.releasedBy(phase).filter(({ wait }) => wait !== undefined).length;
  const whom = released ? `, ${format.plural(released, "waiting warp")} released` : "";
  return `Phase ${phases.number[phase]} of ${name} ended${who}${whom}.`;
}

function ascending(steps: number[]): Int32Array {
  return Int32Array.from(new Set(steps)).sort();
}
