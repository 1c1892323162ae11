// A barrier at a step, for details panes: its phase, who waits, who has arrived and who has still to, and what happened last.

import { definitions, format, h } from "@sglab/core";
import { positionOf } from "./arrivals";
import type { Launch } from "./data";
import { barrierPlace, warpAndRole } from "./names";
import { eventLink, linkTo, part } from "./parts";
import { endsByItself } from "./progress";
import { FAILED, type Relations } from "./relations";
import type { Arrival, BarrierState, BarrierStates, Waiter } from "./states";

const LISTED = 10;
const ARRIVALS_LISTED = 6;

type ToEvent = (event: number) => void;

export function barrierDetails(
  launch: Launch,
  relations: Relations,
  states: BarrierStates,
  index: number,
  step: number,
  toEvent: ToEvent,
): HTMLElement[] {
  const { meta, places } = launch;
  const barrier = meta.barriers[index];
  if (!barrier) return [];
  const state = states.at(index, step);
  const position = places.positionAt(step);
  const rows: [string, Node | string][] = [
    ["place", barrierPlace(launch, barrier)],
    ["phase", phaseText(state, barrier.kind)],
    ["pending", pendingText(state, barrier.kind)],
  ];
  if (barrier.kind === "mbarrier")
    rows.push(["tx-count", state.tx ? `${format.bytes(state.tx)} (${format.count(state.tx)})` : "0"]);
  return [
    h("div", { class: "sg-heading" }, barrier.name),
    definitions(rows),
    ...waitersPart(launch, state, position, toEvent),
    ...(state.fresh && barrier.kind === "mbarrier" ? [] : arrivalsPart(launch, states, index, step, toEvent)),
    part("What happened last"),
    ...listOr("Nothing yet.", history(launch, relations, index, position, toEvent)),
  ];
}

function phaseText({ ended, parity, fresh }: BarrierState, kind: string): string {
  if (!fresh) return `${ended}, parity ${parity}`;
  if (kind === "mbarrier") return "not initialised yet";
  return ended ? `${ended}, none has arrived yet` : "none has arrived yet";
}

function pendingText({ pending, expected, fresh }: BarrierState, kind: string): string {
  if (fresh) return "–";
  if (!expected) return "invalidated"; // only mbarrier.inval leaves nothing to arrive
  return `${format.count(pending)} of ${format.plural(expected, kind === "mbarrier" ? "arrival" : "thread")}`;
}

function waitersPart(
  launch: Launch,
  { waiting, released }: BarrierState,
  position: number,
  toEvent: ToEvent,
): HTMLElement[] {
  const entry = (waiter: Waiter) =>
    h(
      "li",
      {},
      linkTo(warpAndRole(launch, waiter.row), () => toEvent(waiter.event)),
      ` since ${launch.clock.began(waiter.wait)}, ${waitedLong(launch, waiter, position)} long`,
    );
  const list = (waiters: Waiter[]) => {
    const more = waiters.length - LISTED;
    const rest = more > 0 ? h("li", {}, `and ${more} more`) : undefined;
    return h("ul", { class: "sg-list" }, ...waiters.slice(0, LISTED).map(entry), rest);
  };
  const parts = waiting.length ? [part("Who waits"), list(waiting)] : [part(noneWaits(launch, position))];
  if (released.length) parts.push(part("Released, and not gone on yet"), list(released));
  return parts;
}

/** A wait that a failure has cut off at its first instruction is in no table. */
export function noneWaits({ meta, places }: Launch, position: number): string {
  const cut = meta.error && places.stepAt(position) === places.size;
  return cut ? "Which warps wait at the end is said above" : "No warp waits";
}

function arrivalsPart(
  launch: Launch,
  states: BarrierStates,
  index: number,
  step: number,
  toEvent: ToEvent,
): HTMLElement[] {
  const { come, toCome, ends } = states.arrivalsAt(index, step);
  const now = launch.places.positionAt(step);
  const list = (arrivals: Arrival[]) => {
    const more = arrivals.length - ARRIVALS_LISTED;
    const shown = arrivals.slice(0, ARRIVALS_LISTED).map((each) => arrivalEntry(launch, each, now, toEvent));
    return [...shown, ...(more > 0 ? [h("li", {}, `and ${more} more`)] : [])];
  };
  const parts: HTMLElement[] = [];
  if (come.length) parts.push(part("Arrived in this phase"), h("ul", { class: "sg-list" }, ...list(come)));
  const none = ends ? "None." : "None until the recording ends.";
  parts.push(part("Still to arrive"), ...listOr(none, list(toCome)));
  if (!ends && come.length)
    parts.push(h("p", { class: "sg-note" }, "This phase does not end in the recording."));
  return parts;
}

function arrivalEntry(
  launch: Launch,
  { event, moment, count, asynchronous }: Arrival,
  now: number,
  toEvent: ToEvent,
): HTMLElement {
  const who = eventLink(launch, event, toEvent);
  const at = launch.clock.at(positionOf(moment));
  if (asynchronous) return h("li", {}, "what ", who, event < now ? ` issued at ${at}` : ` issues at ${at}`);
  return h("li", {}, who, ` at ${at}${count > 1 ? `, ${count} threads` : ""}`);
}

function listOr(nothing: string, entries: HTMLElement[]): HTMLElement[] {
  return entries.length
    ? [h("ul", { class: "sg-list" }, ...entries)]
    : [h("p", { class: "sg-note" }, nothing)];
}

function waitedFor({ clock, places }: Launch, { wait }: Waiter, position: number): number {
  return Math.max(0, clock.x(places.stepAt(position)) - clock.wait(wait)[0]);
}

/** For how long. */
export function waitedLong(launch: Launch, waiter: Waiter, position: number): string {
  return launch.clock.stretch(waitedFor(launch, waiter, position));
}

/** The same in little room, where instructions go without saying. */
export function waited(launch: Launch, waiter: Waiter, position: number): string {
  const long = waitedFor(launch, waiter, position);
  return launch.clock.timed ? launch.clock.stretch(long) : format.count(long);
}

/** The last things done to it before a position, the latest first. */
function history(
  launch: Launch,
  relations: Relations,
  index: number,
  position: number,
  toEvent: ToEvent,
): HTMLElement[] {
  const { phases } = launch;
  const did = lastBefore(relations.toldActionsOn(index), relations.moments, position);
  const ended = lastBefore(relations.phasesOf(index), phases.position, position);
  return [
    ...did.map((row) => ({
      at: relations.moments[row] as number,
      entry: () => actionEntry(launch, relations, row, toEvent),
    })),
    ...ended.map((row) => ({
      at: (phases.position[row] as number) + (endsByItself(phases, row) ? -0.5 : 0.5),
      entry: () => phaseEntry(launch, relations, row, toEvent),
    })),
  ]
    .sort((a, b) => b.at - a.at)
    .slice(0, LISTED)
    .map(({ entry }) => entry());
}

/** The last few of `rows`, which ascend by `at`, that are before a position. */
function lastBefore(rows: readonly number[], at: ArrayLike<number>, position: number): readonly number[] {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((at[rows[middle] as number] as number) < position) low = middle + 1;
    else high = middle;
  }
  return rows.slice(Math.max(0, low - LISTED), low);
}

const DID: Record<string, string> = {
  init: "initialised it",
  inval: "invalidated it",
  arrive: "arrived",
  expect_tx: "announced bytes",
};

function actionEntry(launch: Launch, relations: Relations, row: number, toEvent: ToEvent): HTMLElement {
  const { actions, phases, meta } = launch;
  const event = actions.event[row] as number;
  const does = meta.actions[actions.action[row] as number] as string;
  const passed = actions.passed[row] as number;
  const went = passed >= 0 ? `continued after phase ${phases.number[passed]}` : "continued immediately";
  const did = DID[does] ?? (passed === FAILED ? "tested: not over yet" : went);
  return h(
    "li",
    {},
    eventLink(launch, event, toEvent),
    ` ${did} at ${launch.clock.at(positionOf(relations.moments[row] as number))}`,
  );
}

function phaseEntry(launch: Launch, relations: Relations, row: number, toEvent: ToEvent): HTMLElement {
  const { phases } = launch;
  const released = relations.releasedBy(row).filter(({ wait }) => wait !== undefined).length;
  const by = phases.asynchronous[row] ? " by what it issued: " : " by ";
  return h(
    "li",
    { class: "sg-strong" },
    `phase ${phases.number[row]} ended at ${launch.clock.ended(row)}${by}`,
    eventLink(launch, phases.event[row] as number, toEvent),
    released ? `, released ${format.plural(released, "warp")}` : "",
  );
}
