// A launch in the order of modelled time: the same tables, with events numbered in the order in which the model has them
// take effect (a wait: when it ends), and positions counted accordingly. What reads the tables need not know.

import { countUpTo, format } from "@sglab/core";
import type { Clock } from "./clock";
import type { Events, Launch, LaunchTables, PhaseTable, StateTable, WaitTable } from "./data";
import { Places } from "./places";
import type { LaunchSource } from "./protocol";

/** Modelled ns from the launch, aligned with the tables. */
export interface Times {
  start: Float64Array;
  end: Float64Array;
  phase: Float64Array;
  operationStart: Float64Array;
  operationEnd: Float64Array;
  /** Of `states`, which are the barriers' in this order of things. */
  state: Float64Array;
  states: StateTable;
}

const LEAST_NS = 20;
const WAITED_NS = 5; // less is no wait that one could see

export async function readTimes(source: LaunchSource): Promise<Times> {
  const names = ["times.events", "times.phases", "times.operations", "times.states", "timed.states"] as const;
  const [events, phases, operations, changes, states] = await Promise.all(
    names.map((name) => source.slice(name, 0, 1e9)),
  );
  const columns = (tensor: typeof events, row: number): Float64Array => {
    const size = tensor?.shape[1] ?? 0;
    return Float64Array.from(tensor?.data.subarray(row * size, (row + 1) * size) ?? []);
  };
  return {
    start: columns(events, 0),
    end: columns(events, 1),
    phase: columns(phases, 0),
    operationStart: columns(operations, 0),
    operationEnd: columns(operations, 1),
    state: columns(changes, 0),
    states: {
      size: states?.shape[1] ?? 0,
      position: new Int32Array(0),
      barrier: Int32Array.from(columns(states, 0)),
      parity: Int32Array.from(columns(states, 1)),
      pending: Int32Array.from(columns(states, 2)),
      expected: Int32Array.from(columns(states, 3)),
      tx: Int32Array.from(columns(states, 4)),
    },
  };
}

export function timedLaunch(launch: Launch, times: Times): Launch {
  const { events, meta } = launch;
  const waiting = waitingEvents(launch, times);
  const effect = Float64Array.from(times.start, (start, i) =>
    waiting[i] ? (times.end[i] as number) : start,
  );
  const order = new Uint32Array(events.size).map((_, i) => i);
  order.sort((a, b) => (effect[a] as number) - (effect[b] as number) || a - b);
  const rank = new Int32Array(events.size);
  order.forEach((old, i) => {
    rank[old] = i;
  });
  const sorted = Float64Array.from(order, (old) => effect[old] as number);
  const renumber = (event: number) => {
    const index = event < 0 ? -1 : launch.places.indexOf(event);
    return index < 0 ? -1 : (rank[index] as number);
  };
  /** The position at which what happens at a time does so. */
  const positionOf = (ns: number) => Math.max(0, countUpTo(sorted, ns) - 1);
  const reordered: Events = {
    size: events.size,
    at: Int32Array.from(order, (_, i) => i),
    row: Int32Array.from(order, (old) => events.row[old] as number),
    pc: Int32Array.from(order, (old) => events.pc[old] as number),
    mask: Int32Array.from(order, (old) => events.mask[old] as number),
  };
  const places = new Places(reordered.at);
  const tables: LaunchTables = {
    events: reordered,
    waits: waitsOf(launch, times, waiting, renumber, positionOf),
    phases: phasesOf(launch, times, renumber, positionOf),
    states: { ...times.states, position: Int32Array.from(times.state, positionOf) },
    actions: { ...launch.actions, event: launch.actions.event.map(renumber) },
    operations: {
      ...launch.operations,
      event: launch.operations.event.map(renumber),
      last: launch.operations.last.map(renumber),
      done: launch.operations.done.map((_, i) => positionOf(times.operationEnd[i] as number)),
    },
    copies: { ...launch.copies, event: launch.copies.event.map(renumber) },
    reads: { ...launch.reads, event: launch.reads.event.map(renumber) },
    pageCtas: launch.pageCtas,
  };
  const clock = timeClock(launch, tables, times, order, rank, sorted);
  return { meta: { ...meta, length: events.size }, code: launch.code, ...tables, places, clock };
}

/** Events that waited: for a barrier or for operations. */
function waitingEvents({ events, waits, actions, places, meta }: Launch, { start, end }: Times): Uint8Array {
  const found = new Uint8Array(events.size);
  const mark = (event: number) => {
    const index = places.indexOf(event);
    if (index >= 0 && (end[index] as number) - (start[index] as number) > WAITED_NS) found[index] = 1;
  };
  waits.event.forEach(mark);
  const wait = meta.actions.indexOf("wait");
  for (let i = 0; i < actions.size; i++) if (actions.action[i] === wait) mark(actions.event[i] as number);
  return found;
}

/** Who waited in modelled time is not who waited on the emulator: a row per event that did. */
function waitsOf(
  { waits, actions, phases, places, events, meta }: Launch,
  { start }: Times,
  waiting: Uint8Array,
  renumber: (event: number) => number,
  positionOf: (ns: number) => number,
): WaitTable {
  const logged = new Map<number, number>();
  waits.event.forEach((event, i) => {
    logged.set(places.indexOf(event), i);
  });
  const acted = new Map<number, number>();
  actions.event.forEach((event, i) => {
    acted.set(places.indexOf(event), i);
  });
  const rows: number[][] = [];
  for (let index = 0; index < events.size; index++) {
    if (!waiting[index]) continue;
    const wait = logged.get(index);
    const action = acted.get(index);
    const phase =
      wait !== undefined ? (waits.phase[wait] as number) : (actions.passed[action ?? 0] as number);
    const barrier = action !== undefined ? (actions.barrier[action] as number) : -1;
    const kind =
      wait !== undefined
        ? (waits.kind[wait] as number)
        : meta.waitKinds.indexOf(meta.barriers[barrier]?.kind === "mbarrier" ? "mbarrier" : "barrier");
    const cause =
      phase >= 0 ? (phases.event[phase] as number) : wait !== undefined ? (waits.cause[wait] as number) : -1;
    rows.push([
      positionOf(start[index] as number) + 1,
      renumber(events.at[index] as number),
      events.row[index] as number,
      kind,
      barrier,
      phase,
      renumber(cause),
    ]);
  }
  rows.sort((a, b) => (a[1] as number) - (b[1] as number));
  const column = (i: number) => Int32Array.from(rows, (row) => row[i] as number);
  return {
    size: rows.length,
    since: column(0),
    event: column(1),
    row: column(2),
    kind: column(3),
    barrier: column(4),
    phase: column(5),
    cause: column(6),
  };
}

function phasesOf(
  { phases }: Launch,
  times: Times,
  renumber: (event: number) => number,
  positionOf: (ns: number) => number,
): PhaseTable {
  return {
    ...phases,
    position: phases.position.map((_, i) => positionOf(times.phase[i] as number)),
    event: phases.event.map(renumber),
  };
}

function timeClock(
  launch: Launch,
  tables: LaunchTables,
  times: Times,
  order: Uint32Array,
  rank: Int32Array,
  sorted: Float64Array,
): Clock {
  const waited = new Uint8Array(order.length);
  for (const event of tables.waits.event) waited[event] = 1;
  const ends = barEnds(launch, times, order, waited);
  const start = (index: number) => times.start[order[index] as number] as number;
  const length = Math.max(1, sorted.at(-1) ?? 0, launch.meta.timed?.total ?? 0);
  const nsAt = (position: number) => sorted[Math.max(0, Math.min(sorted.length - 1, position))] ?? 0;
  return {
    timed: true,
    length,
    least: LEAST_NS,
    axis: "modelled time",
    x: (step) => (step > 0 ? nsAt(step - 1) : 0),
    stepAt: (x) => countUpTo(sorted, x),
    format: nanoseconds,
    at: (position) => format.duration(nsAt(position)),
    between: (from, to) => format.duration(Math.max(0, nsAt(to) - nsAt(Math.max(0, from - 1)))),
    point: format.duration,
    stretch: format.duration,
    numberOf: (index) => launch.clock.numberOf(order[index] as number),
    momentAt: (step) => (step > 0 ? launch.clock.momentAt((order[step - 1] as number) + 1) : 0),
    stepOf: (moment) => {
      const old = launch.clock.stepOf(moment) - 1;
      return old < 0 ? 0 : (rank[old] as number) + 1;
    },
    bar: (index) => {
      const end = ends[index] as number;
      return [waited[index] ? Math.max(start(index), end - 1) : start(index), end];
    },
    wait: (row) => {
      const event = tables.waits.event[row] as number;
      return [start(event), ends[event] as number];
    },
    operation: (row) => {
      const from = times.operationStart[row] as number;
      return [from, Math.max(from + 1, times.operationEnd[row] as number)];
    },
    phase: (row) => times.phase[row] as number,
  };
}

/** A bar ends with its event, or when its warp continues. */
function barEnds({ events }: Launch, times: Times, order: Uint32Array, waited: Uint8Array): Float64Array {
  const ends = Float64Array.from(order, (old) => times.end[old] as number);
  const next = new Map<number, number>();
  for (let i = order.length - 1; i >= 0; i--) {
    const old = order[i] as number;
    const row = events.row[old] as number;
    const following = next.get(row) ?? Number.POSITIVE_INFINITY;
    if (!waited[i]) ends[i] = Math.min(ends[i] as number, following);
    next.set(row, times.start[old] as number);
  }
  return ends;
}

function nanoseconds(x: number, step: number): string {
  if (step >= 1000) return `${format.count(Math.round(x / 1000))} µs`;
  if (step >= 100) return `${(x / 1000).toFixed(1)} µs`;
  if (step >= 10) return `${(x / 1000).toFixed(2)} µs`;
  return `${format.count(Math.round(x))} ns`;
}
