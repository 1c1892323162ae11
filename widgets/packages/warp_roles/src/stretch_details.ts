// The details of a row, or of a bundle of bars too dense to distinguish: what is in it, how long, and what it waited for.

import { definitions, format, h } from "@sglab/core";
import type { Launch } from "@sglab/launch/data";
import { TRACKS, warpAndRole } from "@sglab/launch/names";
import { linkTo, part } from "@sglab/launch/parts";
import { waitedFor, waitLength } from "@sglab/launch/sentences";
import type { Shown } from "./shown";
import { type Group, issuerIn, type Stretch, type Summary, summaryOf } from "./stretches";

const KINDS_LISTED = 6;
const TIME_OF_KINDS =
  "An instruction's time ends with its result, or when its warp issues the next; together they are what is busy. " +
  "Hidden: ptxas issues it earlier, beside others, or needs no instruction for it.";

export interface StretchJumps {
  numbered: (event: number) => void;
  zoomTo: (stretch: Stretch) => void;
}

/** The whole row, as far as it is in view. */
export function rowDetails(shown: Shown, view: Stretch, jumps: StretchJumps): HTMLElement[] {
  const { clock } = shown.launch;
  return [
    h("div", { class: "sg-heading" }, rowName(shown, view.row)),
    part(`In view, ${clock.point(view.start)} to ${clock.point(view.end)}`),
    ...summaryParts(shown, view, jumps),
  ];
}

/** The bars under the pointer, where they cannot be distinguished. */
export function bundleDetails(shown: Shown, bundle: Stretch, jumps: StretchJumps): HTMLElement[] {
  const { clock } = shown.launch;
  const summary = summaryOf(shown, bundle);
  const zoom = h("button", { type: "button", class: "sg-button" }, "zoom to them (z)");
  zoom.addEventListener("click", () => jumps.zoomTo(bundle));
  const range = `${clock.point(bundle.start)} to ${clock.point(bundle.end)}`;
  return [
    part(`A bundle: ${format.plural(summary.count, nounOf(shown, bundle.row))}`),
    definitions([
      ["from", range],
      ["together", clock.stretch(summary.busy)],
      ...(summary.bytes ? ([["bytes", format.bytes(summary.bytes)]] as [string, string][]) : []),
    ]),
    kinds(shown.launch, summary.did),
    zoom,
  ];
}

function summaryParts(shown: Shown, view: Stretch, jumps: StretchJumps): HTMLElement[] {
  const { launch } = shown;
  const summary = summaryOf(shown, view);
  const noun = nounOf(shown, view.row);
  if (!summary.count && !summary.waits.length) return [h("p", { class: "sg-note" }, `No ${noun} in view.`)];
  const length = view.end - view.start;
  const rows: [string, Node | string][] = [[`${noun}s`, format.count(summary.count)]];
  const isWarp = noun === "instruction";
  if (!isWarp || launch.clock.timed) rows.push(["busy", share(launch, summary.busy, length)]);
  if (isWarp) rows.push(["waited", share(launch, summary.waited, length)]);
  if (summary.bytes) rows.push(["bytes", format.bytes(summary.bytes)]);
  return [
    definitions(rows),
    ...(isWarp ? waitParts(launch, summary, jumps) : gapPart(shown, view.row, summary, jumps)),
    part("What"),
    kinds(launch, summary.did),
    ...(isWarp && launch.clock.timed ? [h("p", { class: "sg-note" }, TIME_OF_KINDS)] : []),
  ];
}

function waitParts(launch: Launch, { waits, longest }: Summary, jumps: StretchJumps): HTMLElement[] {
  if (!waits.length) return [];
  const entry = ({ text, count, total }: Group) =>
    h("li", {}, `${text}: ${format.count(count)} ×, ${launch.clock.stretch(total)}`);
  const parts = [
    part("Waited for"),
    h("ul", { class: "sg-list" }, ...waits.slice(0, KINDS_LISTED).map(entry)),
  ];
  if (longest !== undefined) {
    const event = launch.waits.event[longest] as number;
    const length = waitLength(launch, longest);
    const link = linkTo(`${waitedFor(launch, longest)}, ${length}`, () => jumps.numbered(event));
    parts.push(definitions([["longest", link]]));
  }
  return parts;
}

/** The longest time between two operations, and what the warp that issued the second was doing. */
function gapPart(shown: Shown, row: number, { gap }: Summary, jumps: StretchJumps): HTMLElement[] {
  if (!gap) return [];
  const { clock, waits } = shown.launch;
  const { start, end } = gap;
  const text = `${clock.stretch(end - start)} from ${clock.point(start)}`;
  const rows: [string, Node | string][] = [
    ["between two", linkTo(text, () => jumps.zoomTo({ row, start, end }))],
  ];
  const { warp, wait, executed } = issuerIn(shown, gap);
  const who = warpAndRole(shown.launch, warp);
  if (wait !== undefined) {
    const text = `${who} ${waitedFor(shown.launch, wait)}`;
    rows.push(["waited then", linkTo(text, () => jumps.numbered(waits.event[wait] as number))]);
  } else
    rows.push([
      "meanwhile",
      `${who} waited for nothing and executed ${format.plural(executed, "instruction")}`,
    ]);
  return [part("Longest gap"), definitions(rows)];
}

function kinds(launch: Launch, groups: Group[]): HTMLElement {
  const more = groups.length - KINDS_LISTED;
  const long = ({ count, total }: Group) => {
    if (total === 0) return ", hidden";
    // in issue order an instruction takes one place, which goes without saying
    return total === count ? "" : `, ${launch.clock.stretch(total)}`;
  };
  const entries = groups
    .slice(0, KINDS_LISTED)
    .map((group) =>
      h("li", {}, `${format.count(group.count)} × ${group.text.replace("_", " ")}${long(group)}`),
    );
  return h(
    "ul",
    { class: "sg-list" },
    ...entries,
    more > 0 ? h("li", {}, `and ${more} more kinds`) : undefined,
  );
}

function share(launch: Launch, part: number, whole: number): string {
  return `${launch.clock.stretch(part)}, ${format.percent(part / Math.max(1, whole))} of the view`;
}

function rowName({ launch, timeline }: Shown, row: number): string {
  const subject = timeline.subjects[row];
  if (!subject) return "";
  if ("warp" in subject) return warpAndRole(launch, subject.warp);
  return `${TRACKS[subject.track]} of CTA ${launch.meta.ctas[subject.rank]}`;
}

function nounOf({ timeline }: Shown, row: number): string {
  const subject = timeline.subjects[row];
  return subject && "warp" in subject ? "instruction" : "operation";
}
