// Pieces of details panes.

import { format, h } from "@sglab/core";
import type { Launch } from "./data";
import { warpAndRole } from "./names";

export function part(text: string): HTMLElement {
  return h("div", { class: "sg-heading sg-part" }, text);
}

export function linkTo(text: string, go: () => void): HTMLElement {
  const button = h("button", { type: "button", class: "sg-link" }, text);
  button.addEventListener("click", go);
  return button;
}

/** The warp that executed an event, as a link to it. */
export function eventLink(launch: Launch, event: number, go: (event: number) => void): HTMLElement {
  const index = launch.places.indexOf(event);
  if (index < 0) return h("span", {}, `event ${format.count(event)} of another cluster`);
  return linkTo(warpAndRole(launch, launch.events.row[index] as number), () => go(event));
}

/** The last event where a launch failed: of what its error names, as far as this cluster has it; -1 where it did nothing. */
export function failedEvent({ meta, events, code }: Launch): number {
  const { failed } = meta;
  const rank = failed ? meta.ctas.indexOf(failed.cta) : -1;
  const row = failed && rank >= 0 ? rank * meta.warps + failed.warp : -1;
  let ofWarp = -1;
  for (let i = events.size - 1; i >= 0 && row >= 0; i--) {
    if (events.row[i] !== row) continue;
    if (code.at(events.pc[i] as number).ptxLine === failed?.line) return events.at[i] as number;
    if (ofWarp < 0) ofWarp = events.at[i] as number;
  }
  return ofWarp >= 0 ? ofWarp : (events.at[events.size - 1] ?? -1);
}

/** Of a launch that failed, the way to the end of what was recorded; else nothing. */
export function toFailure({ meta }: Launch, go: () => void): HTMLElement[] {
  return meta.error ? [h("p", {}, linkTo("Go to where it failed", go))] : [];
}
