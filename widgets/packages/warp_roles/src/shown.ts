// A launch as the widget shows it: its timeline, what belongs together in it, and where that is on screen.

import type { Hit, Timeline } from "@sglab/core";
import type { Launch } from "@sglab/launch/data";
import { barrierOf, rowsOf } from "@sglab/launch/names";
import { PageIndex } from "@sglab/launch/pages";
import { Relations } from "@sglab/launch/relations";
import { Search } from "@sglab/launch/search";
import { BarrierStates } from "@sglab/launch/states";
import type { Selection } from "@sglab/protocol";
import { type WarpTimeline, warpTimeline } from "./model";
import type { Stretch } from "./stretches";

/**
 * An event, by its number among the cluster's, an operation in flight, or a row of the timeline; and the bundle of bars that
 * was pressed, where they cannot be distinguished.
 */
export type Picked = ({ event: number } | { operation: number } | { row: number }) & { bundle?: Stretch };

const RELATED = 32; // as many of those released are outlined

export interface Shown {
  launch: Launch;
  relations: Relations;
  pages: PageIndex;
  states: BarrierStates;
  timeline: WarpTimeline;
  search: Search;
}

export function makeShown(launch: Launch): Shown {
  return {
    launch,
    relations: new Relations(launch),
    pages: new PageIndex(launch),
    states: new BarrierStates(launch),
    timeline: warpTimeline(launch),
    search: new Search(launch),
  };
}

/** The bar of what is picked. */
export function hitOf(timeline: Timeline, shown: Shown, picked: Picked | undefined): Hit | undefined {
  if (!picked || "row" in picked) return undefined;
  if ("event" in picked) return timeline.find(rowOfEvent(shown, picked.event), picked.event);
  return timeline.find(rowOfOperation(shown, picked.operation), picked.operation);
}

/** What an event has to do with: its wait, what released it, and whom it released. */
export function hitsOfRelations(timeline: Timeline, shown: Shown, picked: Picked | undefined): Hit[] {
  if (!picked || !("event" in picked)) return [];
  const { launch, relations } = shown;
  const event = launch.events.at[picked.event] as number;
  const related = relations.phasesEndedBy(event).flatMap((phase) => relations.releasedBy(phase));
  const cause = relations.causeOf(event);
  const events = [
    ...(cause === undefined ? [] : [cause]),
    ...related.slice(0, RELATED).map((each) => each.event),
  ];
  const wait = relations.waitOf(event);
  const waiting =
    wait === undefined ? [] : [timeline.findWait(rowOfEvent(shown, picked.event), wait) ?? []].flat();
  const bars = events.flatMap((each) => {
    const index = launch.places.indexOf(each);
    return index < 0 ? [] : (timeline.find(rowOfEvent(shown, index), index) ?? []);
  });
  return [...waiting, ...bars];
}

/** The instructions that read the selected page, and the copies that they started. */
export function hitsOfPage(timeline: Timeline, shown: Shown, selection: Selection): Hit[] {
  const { launch, pages, relations } = shown;
  const operations = new Set<number>();
  const found = pages.readsOf(selection).flatMap((read) => {
    const event = launch.reads.event[read] as number;
    const operation = relations.operationOf(event);
    if (operation !== undefined) operations.add(operation);
    const index = launch.places.indexOf(event);
    return timeline.find(rowOfEvent(shown, index), index) ?? [];
  });
  for (const operation of operations)
    found.push(...[timeline.find(rowOfOperation(shown, operation), operation) ?? []].flat());
  return found;
}

/** The rows to stress: the picked one, a warp's, those of who reads a page or has to do with a barrier, or a CTA's. */
export function rowsToStress(shown: Shown, picked: Picked | undefined, selection: Selection): Set<number> {
  const { launch, timeline } = shown;
  if (picked && "row" in picked) return new Set([picked.row]);
  const own = selection.warp === undefined ? rowsOfMany(shown, selection) : [];
  const rows = own.length ? own : rowsOf(launch, selection);
  return new Set(rows.map((row) => timeline.rowOfWarp[row] as number));
}

function rowsOfMany({ launch, pages, relations }: Shown, selection: Selection): number[] {
  const { events, places, reads } = launch;
  const reading = pages
    .readsOf(selection)
    .map((read) => events.row[places.indexOf(reads.event[read] as number)] as number);
  const barrier = barrierOf(launch, selection);
  return reading.length || barrier === undefined ? reading : [...relations.rowsAt(barrier)];
}

function rowOfEvent({ launch, timeline }: Shown, index: number): number {
  return timeline.rowOfWarp[launch.events.row[index] as number] as number;
}

function rowOfOperation({ launch, timeline }: Shown, operation: number): number {
  const { row, track } = launch.operations;
  const rank = Math.floor((row[operation] as number) / launch.meta.warps);
  return timeline.subjects.findIndex(
    (each) => "track" in each && each.rank === rank && each.track === track[operation],
  );
}
