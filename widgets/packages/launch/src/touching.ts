// The steps that have to do with what is selected.

import type { Selection } from "@sglab/protocol";
import type { Launch } from "./data";
import { barrierOf, rowsOf } from "./names";
import { PageIndex } from "./pages";

/** Ascending; undefined where nothing of this cluster is selected. */
export function touching(
  launch: Launch,
  selection: Selection,
  pages = new PageIndex(launch),
): Int32Array | undefined {
  const { actions, phases, waits, operations, places, events } = launch;
  const reads = pages.readsOf(selection);
  if (reads.length && selection.barrier === undefined)
    return ascending(reads.map((read) => places.indexOf(launch.reads.event[read] as number) + 1));
  const barrier = barrierOf(launch, selection);
  const rows = new Set(rowsOf(launch, selection));
  if (barrier === undefined && rows.size === 0) return undefined;
  const steps = new Set<number>();
  const add = (event: number) => {
    const index = places.indexOf(event);
    if (index >= 0) steps.add(index + 1);
  };
  if (barrier !== undefined) {
    for (let i = 0; i < actions.size; i++)
      if (actions.barrier[i] === barrier) add(actions.event[i] as number);
    for (let i = 0; i < phases.size; i++)
      if (phases.barrier[i] === barrier) steps.add(places.stepBehind(phases.position[i] as number));
  } else {
    const here = (event: number) => {
      const index = places.indexOf(event);
      return index >= 0 && rows.has(events.row[index] as number);
    };
    for (const table of [actions, waits, operations])
      for (const event of table.event) if (here(event)) add(event);
  }
  return ascending(steps);
}

function ascending(steps: Iterable<number>): Int32Array {
  return Int32Array.from(new Set(steps)).sort();
}
