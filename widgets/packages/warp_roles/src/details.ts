// The details pane: one event with its text, its lanes, its cause and its effect; links go there.

import { definitions, format, h, type Range } from "@sglab/core";
import { barrierDetails } from "@sglab/launch/barrier_details";
import { placeText } from "@sglab/launch/code";
import type { Launch } from "@sglab/launch/data";
import { barrierOf, barrierPlace, roleName, rowsOf, TRACKS, warpAndRole } from "@sglab/launch/names";
import { eventLink, failedEvent, linkTo, part, toFailure } from "@sglab/launch/parts";
import type { Relations } from "@sglab/launch/relations";
import { waitedFor, waitLength } from "@sglab/launch/sentences";
import type { Selection } from "@sglab/protocol";
import { copyPart, pageDetails } from "./page_details";
import type { Picked, Shown } from "./shown";
import { bundleDetails, rowDetails, type StretchJumps } from "./stretch_details";
import { summaryOf } from "./stretches";

const LISTED = 8;

/** Where links lead. */
export interface Jumps extends StretchJumps {
  barrier: (barrier: number) => void;
}

/** `view`: the stretch of the axis in view; `step`: the moment that is shown. */
export function detailsOf(
  shown: Shown,
  picked: Picked | undefined,
  selection: Selection,
  view: Range,
  step: number,
  jumps: Jumps,
): HTMLElement[] {
  const bundle = picked?.bundle ? bundleDetails(shown, picked.bundle, jumps) : [];
  const page = pageDetails(shown, selection, jumps);
  if (picked && "event" in picked) return [...eventDetails(shown, picked.event, jumps), ...bundle];
  if (picked && "operation" in picked)
    return [...operationDetails(shown.launch, picked.operation, jumps), ...bundle, ...page];
  if (picked) return [...page, ...bundle, ...rowDetails(shown, { ...view, row: picked.row }, jumps)];
  if (page.length) return page;
  const barrier = barrierOf(shown.launch, selection);
  const { launch, relations, states, timeline } = shown;
  if (barrier !== undefined)
    return barrierDetails(launch, relations, states, barrier, step, (event) => jumps.numbered(event));
  const [row, ...more] = rowsOf(launch, selection);
  if (row === undefined || more.length) {
    const failed = toFailure(launch, () => jumps.numbered(failedEvent(launch)));
    return [hint(), ...failed, ...busyShares(shown)];
  }
  return rowDetails(shown, { ...view, row: timeline.rowOfWarp[row] as number }, jumps);
}

const shares = new WeakMap<Shown, [name: string, share: number][]>();

/** How busy each role is over the launch: the share of the time in which its warps execute. Summed once. */
function sharesOf(shown: Shown): [name: string, share: number][] {
  const known = shares.get(shown);
  if (known) return known;
  const { launch, timeline } = shown;
  const { fit, length } = timeline.model;
  const whole = fit ?? { start: 0, end: length };
  const byName = new Map<string, number[]>();
  timeline.subjects.forEach((subject, row) => {
    const name =
      "warp" in subject
        ? roleName(launch.meta.roles[subject.warp] as string)
        : busyName(TRACKS[subject.track] as string);
    const { busy } = summaryOf(shown, { row, ...whole });
    byName.set(name, [...(byName.get(name) ?? []), busy / Math.max(1, whole.end - whole.start)]);
  });
  const mean = (values: number[]) => values.reduce((sum, each) => sum + each, 0) / values.length;
  const found = [...byName].map(([name, values]): [string, number] => [name, mean(values)]);
  shares.set(shown, found);
  return found;
}

/** An allocation of tensor memory lasts until it is freed. */
function busyName(track: string): string {
  return track === "tensor memory" ? "tensor memory held" : `${track} in flight`;
}

function busyShares(shown: Shown): HTMLElement[] {
  const { launch } = shown;
  const rows = sharesOf(shown).map(([name, share]): [string, string] => [name, format.percent(share)]);
  return [
    part(launch.clock.timed ? "Busy, of the modelled time" : "Share of the instructions"),
    definitions(rows),
    h(
      "p",
      { class: "sg-note" },
      launch.clock.timed
        ? "Mean of its warps: an instruction keeps one busy to its result, or to the warp's next; else it waits."
        : "Mean of its warps; the rest they wait, or another warp runs.",
    ),
  ];
}

function hint(): HTMLElement {
  return h(
    "p",
    { class: "sg-note" },
    "Press an instruction, a wait or an operation in flight to see what caused it and what it caused; a row's name, to " +
      "see what it did and what it waited for; a stage of a pipeline, to see its barriers.",
  );
}

function eventDetails(shown: Shown, index: number, jumps: Jumps): HTMLElement[] {
  const { launch, relations } = shown;
  const { events, code } = launch;
  const event = events.at[index] as number;
  const { text, chain, ptxLine, kind } = code.at(events.pc[index] as number);
  const rows: [string, Node | string][] = [
    ["event", eventNumber(launch, index)],
    ...(launch.clock.timed ? ([["time", launch.clock.at(event)]] as [string, string][]) : []),
    ["PTX", `line ${ptxLine} · ${kind}`],
    ["lanes", lanes(events.mask[index] as number)],
  ];
  if (chain[0]) rows.splice(1, 0, ["source", placeText(chain[0])]);
  if (chain.length > 1) rows.splice(2, 0, ["inlined at", chain.slice(1).map(placeText).join(", ")]);
  return [
    h("div", { class: "sg-heading" }, warpAndRole(launch, events.row[index] as number)),
    h("code", { class: "swr-code" }, text),
    definitions(rows),
    ...copyPart(shown, event),
    ...barrierPart(launch, relations, event, jumps),
    ...causePart(launch, relations, event, jumps),
    ...effectPart(launch, relations, event, jumps),
    ...operationPart(launch, relations.operationOf(event), jumps),
  ];
}

/** As the axis counts it, and as the debugger does where that differs. */
function eventNumber({ clock }: Launch, index: number): string {
  const number = clock.numberOf(index);
  if (clock.timed || number === index) return format.count(number);
  return `${format.count(index)}; ${format.count(number)} of the launch`;
}

function operationDetails(launch: Launch, operation: number, jumps: Jumps): HTMLElement[] {
  const kind = launch.meta.operationKinds[launch.operations.kind[operation] as number] as string;
  return [h("div", { class: "sg-heading" }, kind), ...operationPart(launch, operation, jumps)];
}

function operationPart(launch: Launch, operation: number | undefined, jumps: Jumps): HTMLElement[] {
  if (operation === undefined) return [];
  const { operations, meta, clock } = launch;
  const [first, last] = [operations.event[operation] as number, operations.last[operation] as number];
  const done = operations.done[operation] as number;
  const rows: [string, Node | string][] = [
    ["track", TRACKS[operations.track[operation] as number] as string],
    ["operations", format.count(operations.count[operation] as number)],
    [
      "issued by",
      linkTo(warpAndRole(launch, operations.row[operation] as number), () => jumps.numbered(first)),
    ],
    ["issued", first === last ? clock.at(first) : `${clock.at(first)} to ${clock.at(last)}`],
    [
      "carried out",
      done < meta.length ? linkTo(`at ${clock.done(operation)}`, () => jumps.numbered(done)) : "never",
    ],
  ];
  const bytes = operations.bytes[operation] as number;
  if (bytes) rows.push(["bytes", `${format.bytes(bytes)} (${format.count(bytes)})`]);
  const detail = operations.detail[operation] as number;
  const writes = TRACKS[operations.track[operation] as number] === "matrix products";
  if (detail >= 0) rows.push([writes ? "writes" : "at", `tmem[${detail >> 16},${detail & 0xffff}]`]);
  const barrier = operations.barrier[operation] as number;
  if (barrier >= 0)
    rows.push(["signals", linkTo(meta.barriers[barrier]?.name as string, () => jumps.barrier(barrier))]);
  return [part("In flight"), definitions(rows)];
}

function barrierPart(launch: Launch, relations: Relations, event: number, jumps: Jumps): HTMLElement[] {
  const action = relations.actionOf(event);
  if (action === undefined) return [];
  const { actions, meta } = launch;
  const index = actions.barrier[action] as number;
  const barrier = meta.barriers[index];
  if (!barrier) return [];
  return [
    part("Barrier"),
    definitions([
      ["name", linkTo(barrier.name, () => jumps.barrier(index))],
      ["place", barrierPlace(launch, barrier)],
      ["does", meta.actions[actions.action[action] as number] as string],
      ["parity", String(actions.parity[action])],
    ]),
  ];
}

function causePart(launch: Launch, relations: Relations, event: number, jumps: Jumps): HTMLElement[] {
  const wait = relations.waitOf(event);
  const cause = relations.causeOf(event);
  if (wait === undefined && cause === undefined) return [];
  if (cause === event)
    return [part("Cause"), definitions([["waited", "not at all: it was the last to arrive"]])];
  const rows: [string, Node | string][] = [];
  if (wait !== undefined) {
    rows.push(["waited", `${waitedFor(launch, wait)}, for ${waitLength(launch, wait)}`]);
  } else rows.push(["waited", "not at all: the phase was complete"]);
  if (cause !== undefined) {
    const itself = launch.events.row[cause] === launch.events.row[event] ? ", the last to arrive" : "";
    const who = eventLink(launch, cause, (to) => jumps.numbered(to));
    rows.push(["released by", itself ? h("span", {}, who, itself) : who]);
  }
  return [part("Cause"), definitions(rows)];
}

function effectPart(launch: Launch, relations: Relations, event: number, jumps: Jumps): HTMLElement[] {
  const { phases, meta } = launch;
  return relations.phasesEndedBy(event).flatMap((phase) => {
    const barrier = meta.barriers[phases.barrier[phase] as number];
    const released = relations.releasedBy(phase).filter((each) => each.event !== event);
    const how = phases.asynchronous[phase] ? "the operation it issued ended" : "it ended";
    const more = released.length - LISTED;
    return [
      part("Effect"),
      h(
        "p",
        { class: "sg-note" },
        `At ${launch.clock.ended(phase)} ${how} phase ${phases.number[phase]} of ${barrier?.name}. ` +
          (released.length ? "Who continued:" : "No warp waited for it."),
      ),
      h(
        "ul",
        { class: "sg-list" },
        ...released.slice(0, LISTED).map(({ event: to, wait }) =>
          h(
            "li",
            {},
            eventLink(launch, to, (to) => jumps.numbered(to)),
            wait === undefined ? " came later" : ` had waited ${waitLength(launch, wait)}`,
          ),
        ),
        more > 0 ? h("li", {}, `and ${more} more`) : undefined,
      ),
    ];
  });
}

/** 32 little squares; the mask in hex on request. */
function lanes(mask: number): HTMLElement {
  const bits = mask >>> 0;
  const squares = Array.from({ length: 32 }, (_, lane) =>
    h("i", { class: (bits >>> lane) & 1 ? "swr-lane swr-on" : "swr-lane" }),
  );
  const count = squares.filter((each) => each.classList.contains("swr-on")).length;
  const text = `0x${bits.toString(16).padStart(8, "0")}`;
  return h(
    "span",
    { class: "swr-lanes", role: "img", "aria-label": `${count} of 32 lanes, mask ${text}`, title: text },
    ...squares,
  );
}
