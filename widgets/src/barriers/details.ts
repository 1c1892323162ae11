// The details pane: the selected barrier at the current step, who waits, and what happened to it last.

import { format, h } from "../core";
import type { Launch } from "../launch/data";
import { barrierPlace, warpAndRole } from "../launch/names";
import { definitions, eventLink, linkTo, part } from "../launch/parts";
import type { Relations } from "../launch/relations";
import type { BarrierState } from "../launch/states";
import { waited } from "./cells";

const LISTED = 10;

export function hint(): HTMLElement {
  return h(
    "p",
    { class: "sg-note" },
    "Press a barrier, or ↓, to see who waits for it and what happened to it. Height is the share of a phase's arrivals " +
      "that have come, the thin line the bytes still under way, dashes mean that somebody waits; every other phase is " +
      "shaded.",
  );
}

export function barrierDetails(
  launch: Launch,
  relations: Relations,
  index: number,
  state: BarrierState,
  position: number,
  toEvent: (event: number) => void,
): HTMLElement[] {
  const { meta } = launch;
  const barrier = meta.barriers[index];
  if (!barrier) return [];
  const unit = barrier.kind === "mbarrier" ? "arrival" : "thread";
  const rows: [string, Node | string][] = [
    ["place", `${barrierPlace(barrier)} of CTA ${meta.ctas[barrier.rank]}`],
    ["phase", `${state.ended}, bit ${state.parity}`],
    [
      "pending",
      state.fresh ? "–" : `${format.count(state.pending)} of ${format.plural(state.expected, unit)}`,
    ],
  ];
  if (barrier.kind === "mbarrier")
    rows.push(["tx-count", state.tx ? `${format.bytes(state.tx)} (${format.count(state.tx)})` : "0"]);
  const waiting = state.waiting.map((waiter) =>
    h(
      "li",
      {},
      linkTo(warpAndRole(launch, waiter.row), () => toEvent(waiter.event)),
      ` since ${launch.clock.at(waiter.since)}, ${waited(launch, waiter, position)} long`,
    ),
  );
  return [
    h("div", { class: "sg-heading" }, barrier.name),
    definitions(rows),
    part(waiting.length ? "Who waits" : "Nobody waits"),
    h("ul", { class: "sg-list" }, ...waiting),
    part("What happened last"),
    h("ul", { class: "sg-list" }, ...history(launch, relations, index, position, toEvent)),
  ];
}

/** The last things done to it before a position, the latest first. */
function history(
  launch: Launch,
  relations: Relations,
  index: number,
  position: number,
  toEvent: (event: number) => void,
): HTMLElement[] {
  const { actions, phases } = launch;
  const did = lastBefore(relations.actionsOn(index), actions.event, position);
  const ended = lastBefore(relations.phasesOf(index), phases.position, position);
  return [
    ...did.map((row) => ({
      at: actions.event[row] as number,
      entry: () => actionEntry(launch, row, toEvent),
    })),
    ...ended.map((row) => ({
      at: (phases.position[row] as number) + 0.5,
      entry: () => phaseEntry(launch, relations, row, toEvent),
    })),
  ]
    .sort((a, b) => b.at - a.at)
    .slice(0, LISTED)
    .map(({ entry }) => entry());
}

/** The last few of `rows`, which ascend by `at`, that lie before a position. */
function lastBefore(rows: readonly number[], at: Int32Array, position: number): readonly number[] {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((at[rows[middle] as number] as number) < position) low = middle + 1;
    else high = middle;
  }
  return rows.slice(Math.max(0, low - LISTED), low);
}

function actionEntry(launch: Launch, row: number, toEvent: (event: number) => void): HTMLElement {
  const { actions, meta } = launch;
  const event = actions.event[row] as number;
  const does = meta.actions[actions.action[row] as number] as string;
  return h("li", {}, `${does} `, eventLink(launch, event, toEvent), ` at ${launch.clock.at(event)}`);
}

function phaseEntry(
  launch: Launch,
  relations: Relations,
  row: number,
  toEvent: (event: number) => void,
): HTMLElement {
  const { phases } = launch;
  const released = relations.releasedBy(row).filter(({ since }) => since !== undefined).length;
  const by = phases.asynchronous[row] ? " by what it issued: " : " by ";
  return h(
    "li",
    { class: "sbr-end" },
    `phase ${phases.number[row]} ended at ${launch.clock.at(phases.position[row] as number)}${by}`,
    eventLink(launch, phases.event[row] as number, toEvent),
    released ? `, released ${format.plural(released, "warp")}` : "",
  );
}
