// Barriers as a timeline: a row each, with the arrivals of every phase as steps, the bytes under way as a line, and who
// waits as dashes. Pure.

import {
  type Links,
  type Look,
  NO_SPANS,
  type Profile,
  pick,
  ROLE_LOOKS,
  type Spans,
  type TimelineModel,
  type TimelineRow,
} from "@sglab/core";
import type { Barrier, Launch, Pipeline } from "@sglab/launch/data";
import { drawnWaits } from "@sglab/launch/endless";
import { fitOf } from "@sglab/launch/fit";
import { barrierPlace } from "@sglab/launch/names";
import type { BarrierStates } from "@sglab/launch/states";

const ROLES = Object.keys(ROLE_LOOKS);
const PHASE: Look = { fill: "#8a929c", hatch: "none", ink: "#000000" };
const LOOKS: Look[] = [...Object.values(ROLE_LOOKS), PHASE];
const ODD_PHASE = LOOKS.length - 1;
const HEIGHT = { most: 20, least: 12 };
const NO_LINKS: Links = {
  size: 0,
  fromRow: new Int32Array(0),
  fromX: new Float64Array(0),
  toRow: new Int32Array(0),
  toX: new Float64Array(0),
};

/** `shown`: the barriers that get a row, in this order; `extras`: what is beside their names. */
export function barrierTimeline(
  launch: Launch,
  states: BarrierStates,
  shown: readonly number[],
  extras: readonly HTMLElement[],
  heading: HTMLElement,
): TimelineModel {
  const fit = fitOf(launch);
  const drawn = drawnWaits(launch);
  return {
    length: launch.clock.length,
    ...(fit ? { fit } : {}),
    rows: shown.map((barrier, i) => rowOf(launch, states, drawn, barrier, extras[i] as HTMLElement)),
    heights: HEIGHT,
    looks: LOOKS,
    links: NO_LINKS,
    least: launch.clock.least,
    format: launch.clock.format,
    axis: launch.clock.axis,
    heading,
    barLabel: () => "",
  };
}

function rowOf(
  launch: Launch,
  states: BarrierStates,
  drawn: ReadonlySet<number>,
  index: number,
  extra: HTMLElement,
): TimelineRow {
  const barrier = launch.meta.barriers[index] as Barrier;
  const cta = launch.meta.ctas[barrier.rank];
  const look = lookOf(launch, index);
  return {
    label: barrier.name,
    title: `${barrier.name}: ${barrierPlace(launch, barrier)}`,
    group: barrier.kind === "cluster" ? "cluster" : `CTA ${cta}`,
    look,
    lanes: [],
    alive: oddPhases(launch, states, index),
    waits: waitsOf(launch, states, drawn, index),
    profiles: profilesOf(launch, states, index, look),
    extra,
    height: HEIGHT.most,
    flexible: true,
  };
}

/** The look of who fills it: the producers of a full barrier, the consumers of an empty one. */
function lookOf({ meta }: Launch, index: number): number {
  const has = (barriers: number[]) => barriers.includes(index);
  const pipeline = meta.pipelines.find((each: Pipeline) => has(each.full) || has(each.empty));
  const arrivers = pipeline && (has(pipeline.full) ? pipeline.producers : pipeline.consumers);
  const named = meta.barriers[index]?.name.split(/→| barrier /)[0]?.replace(" ", "_");
  const known = ROLES.indexOf(arrivers?.[0] ?? named ?? "idle");
  return known >= 0 ? known : ROLES.indexOf("idle");
}

function oddPhases({ clock }: Launch, states: BarrierStates, index: number): Spans {
  const ends = states.phasesOf(index).map((phase) => clock.phase(phase));
  const size = Math.ceil(ends.length / 2);
  const made = {
    size,
    start: new Float64Array(size),
    end: new Float64Array(size),
    look: new Uint8Array(size).fill(ODD_PHASE),
    id: new Uint32Array(size),
  };
  for (let i = 0; i < size; i++) {
    const end = ends[2 * i + 1];
    made.start[i] = ends[2 * i] as number;
    made.end[i] = end ?? clock.length;
  }
  return made;
}

/** Until their phases end: a warp that continues later does not wait for it any more. */
function waitsOf(
  { clock, waits }: Launch,
  states: BarrierStates,
  drawn: ReadonlySet<number>,
  index: number,
): Spans {
  const endOf = (i: number) => {
    const phase = waits.phase[i] as number;
    return phase < 0 ? clock.wait(i)[1] : Math.min(clock.wait(i)[1], clock.phase(phase));
  };
  const mine = states.waitsOf(index).filter((i) => drawn.has(i));
  const rows = mine.sort((a, b) => clock.wait(a)[0] - clock.wait(b)[0]);
  if (!rows.length) return NO_SPANS;
  const all: Spans = {
    size: rows.length,
    start: Float64Array.from(rows, (i) => clock.wait(i)[0]),
    end: Float64Array.from(rows, (i) => Math.max(clock.wait(i)[0], endOf(i))),
    look: new Uint8Array(rows.length),
    id: Uint32Array.from(rows),
  };
  return pick(
    all,
    rows.map((_, i) => i),
  );
}

function profilesOf(
  { states: table, clock }: Launch,
  states: BarrierStates,
  index: number,
  look: number,
): Profile[] {
  const changes = states.changes[index];
  if (!changes || changes.rows.length === 0) return [];
  const { rows } = changes;
  const x = Float64Array.from(rows, (row) => clock.change(row));
  const share = (row: number) => {
    const expected = table.expected[row] as number;
    return expected ? (expected - (table.pending[row] as number)) / expected : 0;
  };
  const bytes = Float32Array.from(rows, (row) => Math.abs(table.tx[row] as number));
  const most = bytes.reduce((a, b) => Math.max(a, b), 0);
  const arrivals = { x, y: Float32Array.from(rows, share), look };
  return most ? [arrivals, { x, y: bytes.map((value) => value / most), look, line: true }] : [arrivals];
}
