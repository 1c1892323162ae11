// A launch as a timeline in issue order: a row per warp, and per CTA a row of its copies, matrix products and tensor-memory
// operations. Pure.

import {
  format,
  type Links,
  NO_SPANS,
  packLanes,
  pick,
  type Spans,
  type TimelineModel,
  type TimelineRow,
} from "@sglab/core";
import type { Launch } from "@sglab/launch/data";
import { drawnWaits } from "@sglab/launch/endless";
import { fitOf } from "@sglab/launch/fit";
import { hasRoles, roleName, TRACKS, warpAndRole } from "@sglab/launch/names";
import { LOOKS, lookOfRole, lookOfTrack } from "./looks";

const WARP_HEIGHT = { most: 17, least: 12 };
const LANE_HEIGHT = 6;
const MOST_LANES = 14;
const FEW_LANES = 4; // more are drawn lower

/** What a row of the timeline represents: a warp's row in the columns, or a track of a CTA. */
export type Subject = { warp: number } | { track: number; rank: number };

export interface WarpTimeline {
  model: TimelineModel;
  subjects: Subject[];
  /** By row of the columns: the timeline's row. */
  rowOfWarp: Int32Array;
  /** By rank · tracks + track: the timeline's row, -1 where the CTA has none such. */
  rowOfTrack: Int32Array;
}

export function warpTimeline(launch: Launch): WarpTimeline {
  const { meta, clock } = launch;
  const warpSpans = spansOfWarps(launch);
  const waitSpans = spansOfWaits(launch);
  const rows: TimelineRow[] = [];
  const subjects: Subject[] = [];
  const rowOfWarp = new Int32Array(meta.ctas.length * meta.warps);
  const rowOfTrack = new Int32Array(meta.ctas.length * TRACKS.length).fill(-1);
  meta.ctas.forEach((cta, rank) => {
    const group = `CTA ${cta}`;
    for (let warp = 0; warp < meta.warps; warp++) {
      const row = rank * meta.warps + warp;
      rowOfWarp[row] = rows.length;
      subjects.push({ warp: row });
      rows.push(warpRow(launch, row, group, warpSpans[row] ?? NO_SPANS, waitSpans[row] ?? NO_SPANS));
    }
    for (let track = 0; track < TRACKS.length; track++) {
      const spans = spansOfTrack(launch, rank, track);
      if (spans.size === 0) continue;
      rowOfTrack[rank * TRACKS.length + track] = rows.length;
      subjects.push({ track, rank });
      rows.push(trackRow(launch, cta, track, group, spans));
    }
  });
  const fit = fitOf(launch);
  const model: TimelineModel = {
    length: clock.length,
    ...(fit ? { fit } : {}),
    rows,
    heights: WARP_HEIGHT,
    looks: LOOKS,
    links: linksOf(launch, rowOfWarp, rowOfTrack),
    least: clock.least,
    format: clock.format,
    axis: clock.axis,
    barLabel: (row, id) => barLabel(launch, subjects[row] as Subject, id),
  };
  return { model, subjects, rowOfWarp, rowOfTrack };
}

function warpRow(launch: Launch, row: number, group: string, bars: Spans, waits: Spans): TimelineRow {
  const { meta } = launch;
  const role = meta.roles[row] as string;
  const alive =
    bars.size > 0 ? one(bars.start[0] as number, endOf(launch, row, bars), lookOfRole(role)) : undefined;
  return {
    label: hasRoles(launch) ? `${row % meta.warps} ${roleName(role)}` : `warp ${row % meta.warps}`,
    title: `${warpAndRole(launch, row)}: ${format.count(bars.size)} instructions, ${format.plural(waits.size, "wait")}`,
    group,
    look: lookOfRole(role),
    lanes: [bars],
    ...(alive ? { alive } : {}),
    waits,
    height: WARP_HEIGHT.most,
    flexible: true,
  };
}

/** Where a warp ends: with its last instruction, or with a launch that failed before it had come to its end. */
function endOf({ meta, events, code, clock }: Launch, row: number, bars: Spans): number {
  const end = bars.end[bars.size - 1] as number;
  if (!meta.error) return end;
  const last = code.at(events.pc[events.row.lastIndexOf(row)] as number).opcode;
  return /^(ret|exit)\b/.test(last) ? end : clock.length;
}

function trackRow(
  launch: Launch,
  cta: number | undefined,
  track: number,
  group: string,
  spans: Spans,
): TimelineRow {
  const lanes = packLanes(spans, MOST_LANES);
  const count = spans.id.reduce((sum, id) => sum + (launch.operations.count[id] as number), 0);
  const drawn = "a bar for those that go together, from issue to completion";
  return {
    label: TRACKS[track] as string,
    title: `${TRACKS[track]} of CTA ${cta}: ${format.plural(count, "operation")}, ${drawn}`,
    group,
    look: lookOfTrack(track),
    lanes,
    height: Math.max(
      WARP_HEIGHT.least,
      lanes.length * (lanes.length > FEW_LANES ? LANE_HEIGHT - 2 : LANE_HEIGHT),
    ),
  };
}

function one(start: number, end: number, look: number): Spans {
  return {
    size: 1,
    start: Float64Array.of(start),
    end: Float64Array.of(end),
    look: Uint8Array.of(look),
    id: Uint32Array.of(0),
  };
}

function spansOfWarps({ meta, events, clock }: Launch): Spans[] {
  const rows = meta.ctas.length * meta.warps;
  const counts = new Uint32Array(rows);
  for (let i = 0; i < events.size; i++)
    counts[events.row[i] as number] = (counts[events.row[i] as number] as number) + 1;
  const made = Array.from(counts, (size) => ({
    size,
    start: new Float64Array(size),
    end: new Float64Array(size),
    look: new Uint8Array(size),
    id: new Uint32Array(size),
  }));
  made.forEach((spans, row) => {
    spans.look.fill(lookOfRole(meta.roles[row] as string));
  });
  const filled = new Uint32Array(rows);
  for (let i = 0; i < events.size; i++) {
    const row = events.row[i] as number;
    const spans = made[row] as Spans;
    const at = filled[row] as number;
    const [start, end] = clock.bar(i);
    spans.start[at] = start;
    spans.end[at] = end;
    spans.id[at] = i;
    filled[row] = at + 1;
  }
  return made;
}

function spansOfWaits(launch: Launch): Spans[] {
  const { meta, waits, clock } = launch;
  const byRow: number[][] = Array.from({ length: meta.ctas.length * meta.warps }, () => []);
  for (const i of drawnWaits(launch)) byRow[waits.row[i] as number]?.push(i);
  const all: Spans = {
    size: waits.size,
    start: Float64Array.from(waits.event, (_, i) => clock.wait(i)[0]),
    end: Float64Array.from(waits.event, (_, i) => clock.wait(i)[1]),
    look: new Uint8Array(waits.size),
    id: Uint32Array.from(waits.event, (_, i) => i),
  };
  return byRow.map((members) =>
    pick(
      all,
      members.sort((a, b) => (all.start[a] as number) - (all.start[b] as number)),
    ),
  );
}

function spansOfTrack({ meta, operations, clock }: Launch, rank: number, track: number): Spans {
  const mine: number[] = [];
  for (let i = 0; i < operations.size; i++) {
    const of = Math.floor((operations.row[i] as number) / meta.warps);
    if (of === rank && operations.track[i] === track) mine.push(i);
  }
  const spans = new Map(mine.map((i) => [i, clock.operation(i)]));
  const ends = (i: number) => spans.get(i) as readonly [number, number];
  mine.sort((a, b) => ends(a)[0] - ends(b)[0]);
  return {
    size: mine.length,
    start: Float64Array.from(mine, (i) => ends(i)[0]),
    end: Float64Array.from(mine, (i) => ends(i)[1]),
    look: new Uint8Array(mine.length).fill(lookOfTrack(track)),
    id: Uint32Array.from(mine),
  };
}

/** From the moment a phase ended, at the warp or track that ended it, to the warp that had waited. */
function linksOf(launch: Launch, rowOfWarp: Int32Array, rowOfTrack: Int32Array): Links {
  const { meta, waits, phases, events, places, operations, clock } = launch;
  const track = new Map<number, number>();
  for (let i = 0; i < operations.size; i++)
    for (const event of [operations.event[i], operations.last[i]])
      track.set(event as number, operations.track[i] as number);
  const found: [number, number, number, number][] = [];
  for (let i = 0; i < waits.size; i++) {
    const index = places.indexOf(waits.cause[i] as number);
    if (index < 0) continue;
    const phase = waits.phase[i] as number;
    const row = events.row[index] as number;
    const of = phase < 0 || phases.asynchronous[phase] ? track.get(waits.cause[i] as number) : undefined;
    const rank = Math.floor(row / meta.warps);
    const fromTrack = of === undefined ? -1 : (rowOfTrack[rank * TRACKS.length + of] as number);
    found.push([
      fromTrack >= 0 ? fromTrack : (rowOfWarp[row] as number),
      phase < 0 ? clock.wait(i)[1] : clock.phase(phase),
      rowOfWarp[waits.row[i] as number] as number,
      clock.wait(i)[1],
    ]);
  }
  found.sort((a, b) => a[3] - b[3]);
  return {
    size: found.length,
    fromRow: Int32Array.from(found, (link) => link[0]),
    fromX: Float64Array.from(found, (link) => link[1]),
    toRow: Int32Array.from(found, (link) => link[2]),
    toX: Float64Array.from(found, (link) => link[3]),
  };
}

function barLabel({ code, events, operations, meta }: Launch, subject: Subject, id: number): string {
  if ("warp" in subject) return code.at(events.pc[id] as number).text;
  const count = operations.count[id] as number;
  return `${count > 1 ? `${count} × ` : ""}${meta.operationKinds[operations.kind[id] as number]}`;
}
