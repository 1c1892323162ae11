// The moments of a launch as the transport steps through them.

import type { Granularity } from "@sglab/core";
import { KINDS, type Kind } from "./data";
import { type Facts, momentSentence } from "./words";

function stopsOf({ moments }: Facts, kinds: readonly Kind[]): Int32Array {
  const found = [];
  for (let i = 0; i < moments.length; i++)
    if (kinds.includes(KINDS[moments.kind[i] as number] as Kind)) found.push(i + 1);
  return Int32Array.from(found);
}

/** Step sizes, finest first; those that a launch lacks are left out. */
export function granularitiesOf(facts: Facts): Granularity[] {
  const sizes: Granularity[] = [
    { id: "event", label: "tcgen05 event" },
    { id: "access", label: "ld, st, mma", stops: stopsOf(facts, ["st", "ld", "mma", "cp", "shift"]) },
    { id: "mma", label: "mma", stops: stopsOf(facts, ["mma"]) },
    { id: "commit", label: "commit", stops: stopsOf(facts, ["commit"]) },
  ];
  return sizes.filter(({ stops }) => stops === undefined || stops.length > 0);
}

/** Moments that touch a cell, or belong to a matrix: what Shift+← and → visit. */
export function eventsOf(
  { moments, launch }: Facts,
  cell: { rank: number; lane: number; column: number } | undefined,
): Int32Array | undefined {
  if (!cell) return undefined;
  const found = [];
  for (let i = 0; i < moments.length; i++) {
    const [lane, lanes, column, columns] = [0, 1, 2, 3].map((j) => moments.place[i * 4 + j] as number) as [
      number,
      number,
      number,
      number,
    ];
    const pair = KINDS[moments.kind[i] as number] === "mma" || moments.cta[i] === launch.ctas[cell.rank];
    const inside =
      cell.lane >= lane &&
      cell.lane < lane + lanes &&
      cell.column >= column &&
      cell.column < column + columns;
    if (pair && inside) found.push(i + 1);
  }
  return Int32Array.from(found);
}

export function describe(facts: Facts, position: number): string {
  if (position === 0)
    return "Nothing has touched tensor memory yet. Press → for the first instruction that does.";
  return momentSentence(facts, position - 1);
}
