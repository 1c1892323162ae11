// The details pane: the selected barrier at the current step, who waits, and what happened to it last.

import { format, h } from "../core";
import type { Launch } from "../launch/data";
import { barrierPlace, warpAndRole } from "../launch/names";
import { definitions, eventLink, linkTo, part } from "../launch/parts";
import type { Relations } from "../launch/relations";
import type { BarrierState } from "../launch/states";

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
  const waiting = state.waiting.map(({ row, since, event }) =>
    h(
      "li",
      {},
      linkTo(warpAndRole(launch, row), () => toEvent(event)),
      ` since ${format.count(since)}, ${format.count(Math.max(0, position - since))} long`,
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
  const { actions, phases, meta } = launch;
  const found: { at: number; entry: () => HTMLElement }[] = [];
  for (let i = actions.size - 1; i >= 0; i--) {
    const event = actions.event[i] as number;
    if (actions.barrier[i] !== index || event >= position) continue;
    const does = meta.actions[actions.action[i] as number] as string;
    found.push({
      at: event,
      entry: () => h("li", {}, `${does} `, eventLink(launch, event, toEvent), ` at ${format.count(event)}`),
    });
    if (found.length === LISTED) break;
  }
  for (let i = phases.size - 1, ends = 0; i >= 0 && ends < LISTED; i--) {
    const at = phases.position[i] as number;
    if (phases.barrier[i] !== index || at >= position) continue;
    ends += 1;
    const released = relations.releasedBy(i).filter(({ since }) => since !== undefined).length;
    const whom = released ? `, released ${format.plural(released, "warp")}` : "";
    const cause = phases.event[i] as number;
    const by = phases.asynchronous[i] ? " by what it issued: " : " by ";
    found.push({
      at: at + 0.5,
      entry: () =>
        h(
          "li",
          { class: "sbr-end" },
          `phase ${phases.number[i]} ended at ${format.count(at)}${by}`,
          eventLink(launch, cause, toEvent),
          whom,
        ),
    });
  }
  return found
    .sort((a, b) => b.at - a.at)
    .slice(0, LISTED)
    .map(({ entry }) => entry());
}
