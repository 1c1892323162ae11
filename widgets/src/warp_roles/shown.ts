// A launch as the widget shows it: its timeline, what belongs together in it, and where that lies on screen.

import type { Hit, Selection, Timeline } from "../core";
import type { Launch } from "../launch/data";
import { rowsOf } from "../launch/names";
import { PageIndex } from "../launch/pages";
import { Relations } from "../launch/relations";
import { Search } from "../launch/search";
import { type WarpTimeline, warpTimeline } from "./model";

/** An event, by its number among the cluster's, or an operation in flight. */
export type Picked = { event: number } | { operation: number };

export interface Shown {
  launch: Launch;
  relations: Relations;
  pages: PageIndex;
  timeline: WarpTimeline;
  search: Search;
}

export function makeShown(launch: Launch): Shown {
  return {
    launch,
    relations: new Relations(launch),
    pages: new PageIndex(launch),
    timeline: warpTimeline(launch),
    search: new Search(launch),
  };
}

/** The bar of what is picked. */
export function hitOf(timeline: Timeline, shown: Shown, picked: Picked | undefined): Hit | undefined {
  if (!picked) return undefined;
  if ("event" in picked) return timeline.find(rowOfEvent(shown, picked.event), picked.event);
  return timeline.find(rowOfOperation(shown, picked.operation), picked.operation);
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

/** The rows that a selection means: a warp's, a CTA's, or those of the warps that read a page. */
export function rowsToStress({ launch, pages, timeline }: Shown, selection: Selection): Set<number> {
  const named = rowsOf(launch, selection);
  const { events, places, reads } = launch;
  const reading = pages
    .readsOf(selection)
    .map((read) => events.row[places.indexOf(reads.event[read] as number)] as number);
  const rows = reading.length && selection.warp === undefined ? reading : named;
  return new Set(rows.map((row) => timeline.rowOfWarp[row] as number));
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
