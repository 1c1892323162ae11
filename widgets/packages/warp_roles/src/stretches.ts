// What is in a stretch of a row: which instructions or operations, how much of it was waited for what. Pure.

import { firstEndingAfter, NO_SPANS, type Spans, type TimelineRow } from "@sglab/core";
import type { Launch } from "@sglab/launch/data";
import type { WarpTimeline } from "./model";

/** A launch and the rows that show it. */
interface Rows {
  launch: Launch;
  timeline: WarpTimeline;
}

/** Part of a timeline's row, in units of its axis. */
export interface Stretch {
  row: number;
  start: number;
  end: number;
}

/** Things of one kind: how many, and how much of the stretch they take together. */
export interface Group {
  text: string;
  count: number;
  total: number;
}

export interface Summary {
  /** Instructions or operations: the kinds that take longest first, in issue order the most frequent. */
  did: Group[];
  count: number;
  /** Of operations. */
  bytes: number;
  /** How much of the stretch something covers. */
  busy: number;
  /** By what was waited for, the longest together first. */
  waits: Group[];
  waited: number;
  /** The row of `waits` that lasts longest. */
  longest: number | undefined;
  /** The longest time between two bars, and the second of them. */
  gap: Gap | undefined;
}

export interface Gap {
  start: number;
  end: number;
  next: number;
}

export function summaryOf(shown: Rows, stretch: Stretch): Summary {
  const { launch, timeline } = shown;
  const row = timeline.model.rows[stretch.row] as TimelineRow;
  const subject = timeline.subjects[stretch.row];
  const isWarp = subject !== undefined && "warp" in subject;
  const did = new Groups();
  const covered: [number, number, number][] = [];
  let bytes = 0;
  for (const lane of row.lanes)
    for (const [id, start, end] of within(lane, stretch)) {
      covered.push([start, end, id]);
      if (isWarp) did.add(launch.code.at(launch.events.pc[id] as number).kind, 1, end - start);
      else {
        did.add(operationKind(launch, id), launch.operations.count[id] as number, end - start);
        bytes += launch.operations.bytes[id] as number;
      }
    }
  const waits = new Groups();
  let [longest, most, waited]: [number | undefined, number, number] = [undefined, 0, 0];
  for (const [id, start, end] of within(row.waits ?? NO_SPANS, stretch)) {
    waits.add(whatFor(launch, id), 1, end - start);
    waited += end - start;
    if (end - start > most) [longest, most] = [id, end - start];
  }
  const { busy, gap } = coverage(covered, stretch);
  return {
    did: did.by(launch.clock.timed ? (group) => group.total : (group) => group.count),
    count: did.count,
    bytes,
    busy,
    waits: waits.by((group) => group.total),
    waited,
    longest,
    gap,
  };
}

/** How many bars of a row, on any of its lanes, touch a stretch, and the stretch that they fill. */
export function barsIn({ timeline }: Rows, stretch: Stretch): { count: number; filled: Stretch } {
  let count = 0;
  let [start, end] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const lane of timeline.model.rows[stretch.row]?.lanes ?? [])
    for (let i = firstEndingAfter(lane, stretch.start); i < lane.size; i++) {
      if ((lane.start[i] as number) > stretch.end) break;
      count += 1;
      start = Math.min(start, lane.start[i] as number);
      end = Math.max(end, lane.end[i] as number);
    }
  return { count, filled: count ? { row: stretch.row, start, end } : stretch };
}

class Groups {
  count = 0;
  #of = new Map<string, Group>();

  add(text: string, count: number, total: number): void {
    const group = this.#of.get(text) ?? { text, count: 0, total: 0 };
    group.count += count;
    group.total += total;
    this.count += count;
    this.#of.set(text, group);
  }

  by(value: (group: Group) => number): Group[] {
    return [...this.#of.values()].sort((a, b) => value(b) - value(a) || b.count - a.count);
  }
}

/** Ids of the spans in a stretch, cut to it. */
function* within(spans: Spans, { start, end }: Stretch): Generator<[number, number, number]> {
  for (let i = firstEndingAfter(spans, start); i < spans.size; i++) {
    if ((spans.start[i] as number) >= end) return;
    yield [
      spans.id[i] as number,
      Math.max(start, spans.start[i] as number),
      Math.min(end, spans.end[i] as number),
    ];
  }
}

function operationKind({ operations, meta }: Launch, id: number): string {
  return meta.operationKinds[operations.kind[id] as number] as string;
}

/** The stages of a ring are waited for as one. */
function whatFor({ waits, meta }: Launch, wait: number): string {
  const name = meta.barriers[waits.barrier[wait] as number]?.name;
  if (name) return name.replace(/\[\d+\]/, "[…]");
  const kind = meta.waitKinds[waits.kind[wait] as number];
  return kind === "async"
    ? "asynchronous operations"
    : kind === "warp"
      ? "lanes of its own"
      : "free tensor memory or registers";
}

function coverage(
  covered: [number, number, number][],
  { start }: Stretch,
): { busy: number; gap: Gap | undefined } {
  covered.sort((a, b) => a[0] - b[0]);
  let [busy, reached] = [0, start];
  let gap: Gap | undefined;
  for (const [i, [from, to, next]] of covered.entries()) {
    const longer = from - reached > (gap ? gap.end - gap.start : 0);
    if (i > 0 && longer) gap = { start: reached, end: from, next };
    busy += Math.max(0, to - Math.max(reached, from));
    reached = Math.max(reached, to);
  }
  return { busy, gap };
}

/** What the warp that issued the operation after a gap did in it: the longest wait, and its instructions. */
export function issuerIn({ launch, timeline }: Rows, { start, end, next }: Gap) {
  const warp = launch.operations.row[next] as number;
  const row = timeline.rowOfWarp[warp] as number;
  let [found, most]: [number | undefined, number] = [undefined, 0];
  for (const [id, from, to] of within(timeline.model.rows[row]?.waits ?? NO_SPANS, { row, start, end }))
    if (to - from > most) [found, most] = [id, to - from];
  let executed = 0;
  for (const lane of timeline.model.rows[row]?.lanes ?? [])
    executed += [...within(lane, { row, start, end })].length;
  return { warp, wait: found, executed };
}
