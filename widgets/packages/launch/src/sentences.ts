// What happened, in words: for the readout, for hover, for screen readers.

import { format } from "@sglab/core";
import { placeText } from "./code";
import type { Barrier, Launch } from "./data";
import { barrierInText, TRACKS, warpAndRole, warpName } from "./names";
import type { Relations } from "./relations";

export function sentenceOf(launch: Launch, relations: Relations, step: number): string {
  if (step === 0) return "Nothing has been executed yet.";
  const { events, code } = launch;
  const index = step - 1;
  const event = events.at[index] as number;
  const { opcode, chain } = code.at(events.pc[index] as number);
  const place = chain[0] ? ` (${placeText(chain[0])})` : "";
  return `${warpAndRole(launch, events.row[index] as number)}: ${opcode}${place}.${effectOf(launch, relations, event)}`;
}

/** " It waited for full[1], 312 instructions long. It ended phase 2 of empty[0] and released 2 warps." */
export function effectOf(launch: Launch, relations: Relations, event: number): string {
  const { phases, meta } = launch;
  const parts: string[] = [];
  const wait = relations.waitOf(event);
  if (wait !== undefined) {
    const length = waitLength(launch, wait);
    parts.push(` It had waited ${waitedFor(launch, wait)} for ${length}.`);
  }
  for (const alike of alikePhases(launch, relations.phasesEndedBy(event)).slice(0, 2)) {
    const [phase] = alike as [number];
    const barriers = alike.map((each) => meta.barriers[phases.barrier[each] as number] as Barrier);
    const [barrier] = barriers as [Barrier];
    const ctas = barriers.map(({ rank }) => meta.ctas[rank]);
    const where = ctas.length > 1 ? ` of CTAs ${ctas.join(" and ")}` : "";
    const released = alike
      .flatMap((each) => relations.releasedBy(each))
      .filter(({ wait }) => wait !== undefined);
    const how = phases.asynchronous[phase] ? "What it issued later ended" : "It ended";
    const whom = released.length ? ` and released ${format.plural(released.length, "waiting warp")}` : "";
    parts.push(` ${how} phase ${phases.number[phase]} of ${barrierInText(barrier)}${where}${whom}.`);
  }
  return parts.join("");
}

/** Phases that differ in their CTA only, as a multicast ends them in both of a pair, are told as one. */
function alikePhases({ phases, meta }: Launch, ended: readonly number[]): number[][] {
  const groups = new Map<string, number[]>();
  for (const phase of ended) {
    const name = meta.barriers[phases.barrier[phase] as number]?.name;
    const key = `${phases.asynchronous[phase]} ${phases.number[phase]} ${name}`;
    groups.set(key, [...(groups.get(key) ?? []), phase]);
  }
  return [...groups.values()];
}

/** "at full[1]", "for asynchronous operations", "for lanes of its own warp". */
export function waitedFor({ waits, meta }: Launch, wait: number): string {
  const barrier = meta.barriers[waits.barrier[wait] as number];
  if (barrier) return `at ${barrierInText(barrier)}`;
  const kind = meta.waitKinds[waits.kind[wait] as number];
  if (kind === "async") return "on asynchronous operations";
  if (kind === "warp") return "on other lanes of its warp";
  return "for free tensor memory or registers";
}

/** How long a wait was. */
export function waitLength({ clock }: Launch, wait: number): string {
  const [from, to] = clock.wait(wait);
  return clock.stretch(to - from);
}

export function eventText(launch: Launch, relations: Relations, index: number): string {
  const { events, code } = launch;
  const { text, chain, ptxLine } = code.at(events.pc[index] as number);
  const place = chain[0] ? placeText(chain[0]) : "no source line";
  const effect = effectOf(launch, relations, events.at[index] as number).trim();
  return [
    warpAndRole(launch, events.row[index] as number),
    text,
    `PTX line ${ptxLine} · ${place} · event ${format.count(launch.clock.numberOf(index))}`,
    ...(effect ? [effect] : []),
  ].join("\n");
}

export function waitText(launch: Launch, wait: number): string {
  const { waits, events, places } = launch;
  const cause = places.indexOf(waits.cause[wait] as number);
  const by = cause >= 0 ? `\nreleased by ${warpAndRole(launch, events.row[cause] as number)}` : "";
  const length = waitLength(launch, wait);
  return `${warpAndRole(launch, waits.row[wait] as number)}\nwaits ${waitedFor(launch, wait)}, for ${length}${by}`;
}

export function operationText(launch: Launch, operation: number): string {
  const { operations, meta } = launch;
  const kind = meta.operationKinds[operations.kind[operation] as number];
  const count = operations.count[operation] as number;
  const bytes = operations.bytes[operation] as number;
  const barrier = meta.barriers[operations.barrier[operation] as number];
  return [
    `${TRACKS[operations.track[operation] as number]}: ${count > 1 ? `${count} × ` : ""}${kind}`,
    `issued by ${warpName(launch, operations.row[operation] as number)}`,
    `in flight from ${launch.clock.at(operations.event[operation] as number)} to ${launch.clock.done(operation)}`,
    ...(bytes ? [format.bytes(bytes)] : []),
    ...(barrier ? [`signals ${barrier.name}`] : []),
  ].join("\n");
}
