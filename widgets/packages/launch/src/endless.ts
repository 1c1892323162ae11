// Waits that a failed launch never ended. Where it stopped, warps test a barrier again and again: the log has a wait for
// each test that failed, and they are one, since the first of them.

import type { LaunchMeta, WaitTable } from "./tables";

export interface EndlessWait {
  barrier: number;
  row: number;
  /** The position at which it began, and the last test. */
  since: number;
  event: number;
  /** The row of `waits` of the first test. */
  wait: number;
}

interface Recorded {
  meta: Pick<LaunchMeta, "error" | "barriers">;
  waits: WaitTable;
}

/** One for each warp that waited so until the end. */
export function endlessWaits({ meta, waits }: Recorded): EndlessWait[] {
  if (!meta.error) return [];
  const last = new Map<number, number>();
  waits.event.forEach((event, i) => {
    const row = waits.row[i] as number;
    last.set(row, Math.max(last.get(row) ?? -1, event));
  });
  const byEvent = Array.from(waits.event, (_, i) => i).sort(
    (a, b) => (waits.event[a] as number) - (waits.event[b] as number),
  );
  const runs = meta.barriers.map(() => new Map<number, EndlessWait>());
  for (const wait of byEvent) {
    const barrier = waits.barrier[wait] as number;
    const mine = runs[barrier];
    if (!mine) continue;
    const [row, event] = [waits.row[wait] as number, waits.event[wait] as number];
    const before = mine.get(row);
    if ((waits.phase[wait] as number) >= 0) mine.delete(row);
    else
      mine.set(row, {
        barrier,
        row,
        since: before?.since ?? (waits.since[wait] as number),
        event,
        wait: before?.wait ?? wait,
      });
  }
  return runs.flatMap((mine) => [...mine.values()].filter(({ row, event }) => last.get(row) === event));
}

/** The rows of `waits` to draw: of an endless one the first, which lasts to the end. */
export function drawnWaits(recorded: Recorded): Set<number> {
  const { waits } = recorded;
  const endless = endlessWaits(recorded);
  const again = (i: number) =>
    endless.some(
      ({ barrier, row, wait }) =>
        waits.barrier[i] === barrier &&
        waits.row[i] === row &&
        i !== wait &&
        (waits.event[i] as number) > (waits.event[wait] as number),
    );
  return new Set(Array.from(waits.event, (_, i) => i).filter((i) => !again(i)));
}
