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

/** Of a launch that failed, the way to the end of what was recorded; else nothing. */
export function toFailure({ meta }: Launch, go: () => void): HTMLElement[] {
  return meta.error ? [h("p", {}, linkTo("Go to where it failed", go))] : [];
}
