// What is beside a barrier's name: phase, pending arrivals, bytes under way and who waits, at the current step.

import { cssBackground, format, h, type Look, ROLE_LOOKS } from "@sglab/core";
import { noneWaits, waited, waitedLong } from "@sglab/launch/barrier_details";
import type { Launch } from "@sglab/launch/data";
import { roleName, warpAndRole } from "@sglab/launch/names";
import type { BarrierState, Waiter } from "@sglab/launch/states";

const DOTS = 4; // arrivals that are drawn one by one
const ROLES_SHOWN = 2; // of those that wait

export interface Cells {
  element: HTMLElement;
  show: (launch: Launch, state: BarrierState, position: number) => void;
}

export function cellsHeading(): HTMLElement {
  return h(
    "div",
    { class: "sbr-cells sbr-heading", "aria-hidden": "true" },
    h("span", {}, "phase"),
    h("span", {}, "pending"),
    h("span", {}, "tx-count"),
    h("span", {}, "waiting"),
  );
}

export function makeCells(): Cells {
  const phase = h("span", { class: "sbr-phase" });
  const pending = h("span", { class: "sbr-pending" });
  const tx = h("span", { class: "sbr-tx" });
  const waiting = h("span", { class: "sbr-waiting" });
  const since = h("span", { class: "sbr-since" });
  let shown = "";
  let shownWaiting = "";
  return {
    element: h("div", { class: "sbr-cells" }, phase, pending, tx, waiting),
    show(launch, state, position) {
      const { waiting: waiters, released: _, ...rest } = state;
      const key = Object.values(rest).join();
      const first = waiters[0];
      const waitingKey = waiters.map(({ row, since }) => `${row} ${since}`).join();
      if (waitingKey !== shownWaiting)
        waiting.replaceChildren(...waitingParts(launch, waiters), ...(first ? [since] : []));
      shownWaiting = waitingKey;
      since.textContent = first ? waited(launch, first, position) : "";
      if (key === shown) return;
      shown = key;
      phase.replaceChildren(...phaseParts(state));
      pending.replaceChildren(...pendingParts(state));
      tx.textContent = state.tx ? format.bytes(state.tx) : "";
      tx.title = state.tx ? `${format.count(state.tx)} bytes still to come` : "";
    },
  };
}

function phaseParts({ ended, parity, fresh }: BarrierState): (HTMLElement | string)[] {
  if (fresh && ended === 0) return ["–"];
  const bit = h("i", { class: parity ? "sbr-bit sbr-one" : "sbr-bit", title: `parity ${parity}` });
  return [bit, String(ended)];
}

function pendingParts({ pending, expected, fresh }: BarrierState): (HTMLElement | string)[] {
  if (fresh || !expected) return ["–"]; // invalidated
  const text = `${pending}/${expected}`;
  if (expected > DOTS) {
    const bar = h("i", { class: "sbr-bar" });
    bar.style.setProperty("--sbr-share", String(1 - pending / expected));
    return [bar, text];
  }
  const dots = Array.from({ length: expected }, (_, i) =>
    h("i", { class: i < expected - pending ? "sbr-dot sbr-come" : "sbr-dot" }),
  );
  return [h("span", { class: "sbr-dots" }, ...dots), text];
}

/** Their roles, then the warp or how many of them: one number for all, since one per role does not fit. */
function waitingParts(launch: Launch, waiting: Waiter[]): HTMLElement[] {
  const [first] = waiting;
  if (!first) return [];
  const byRole = new Map<string, Waiter[]>();
  for (const waiter of waiting) {
    const role = launch.meta.roles[waiter.row] as string;
    byRole.set(role, [...(byRole.get(role) ?? []), waiter]);
  }
  const swatches = [...byRole.keys()].slice(0, ROLES_SHOWN).map((role) => {
    const swatch = h("i", { class: "sg-swatch" });
    swatch.style.background = cssBackground((ROLE_LOOKS as Record<string, Look>)[role] ?? ROLE_LOOKS.idle);
    return swatch;
  });
  const title = waiting
    .map(({ row, wait }) => `${warpAndRole(launch, row)} since ${launch.clock.began(wait)}`)
    .join("\n");
  const text = waiting.length === 1 ? `w${first.row % launch.meta.warps}` : `×${waiting.length}`;
  return [h("span", { class: "sbr-chip", title }, ...swatches, h("span", { class: "sbr-count" }, text))];
}

/** The same as a sentence, for hover and screen readers. */
export function stateText(launch: Launch, index: number, state: BarrierState, position: number): string {
  const barrier = launch.meta.barriers[index];
  const unit = barrier?.kind === "mbarrier" ? "arrival" : "thread";
  const lines = [barrier?.name ?? ""];
  if (state.fresh)
    lines.push(barrier?.kind === "mbarrier" ? "not initialised yet" : "no warp has reached it in this phase");
  else {
    lines.push(`phase ${state.ended}, parity ${state.parity}`);
    lines.push(`${format.plural(state.pending, unit)} of ${format.count(state.expected)} pending`);
  }
  if (state.tx) lines.push(`${format.bytes(state.tx)} still to come`);
  for (const waiter of state.waiting)
    lines.push(`${warpAndRole(launch, waiter.row)} waits, for ${waitedLong(launch, waiter, position)}`);
  for (const { row } of state.released)
    lines.push(`${warpAndRole(launch, row)} was released and has not gone on yet`);
  return lines.join("\n");
}

/** What the selected barrier waits for: arrivals, and bytes where a copy brings some. */
export function pendingText({ pending, expected, tx, fresh }: BarrierState): string {
  if (fresh || !expected) return "";
  const bytes = tx ? `, ${format.bytes(tx)} under way` : "";
  return `${format.count(pending)} of ${format.count(expected)} pending${bytes}. `;
}

export function waitersSentence(launch: Launch, waiting: Waiter[], position: number): string {
  if (!waiting.length) return `${noneWaits(launch, position)}.`;
  const roles = new Map<string, number>();
  for (const { row } of waiting) {
    const role = roleName(launch.meta.roles[row] as string);
    roles.set(role, (roles.get(role) ?? 0) + 1);
  }
  const parts = [...roles].map(([role, count]) => `${count} ${role}`);
  return `${format.plural(waiting.length, "warp")} ${waiting.length === 1 ? "waits" : "wait"} (${parts.join(", ")}).`;
}
