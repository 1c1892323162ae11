// A launch in the order of modelled time: the same tables, with events numbered in the order in which the model has them
// take effect (a wait: when it ends), and positions counted accordingly. What reads the tables need not know.

import { countUpTo, format } from "@sglab/core";
import { actionMoments } from "./arrivals";
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
  const enders = endersOf(launch, times);
  const waiting = waitingEvents(launch, times, enders);
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
  /** The position of what happens at a time without an instruction: with the first one that is not before it. */
  const positionOf = (ns: number) => Math.max(0, Math.min(sorted.length - 1, countBelow(sorted, ns)));
  const phases = phasesOf(launch, times, enders, renumber, positionOf);
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
    waits: waitsOf(launch, times, waiting, enders, renumber, positionOf),
    phases,
    states: { ...times.states, position: changePositions(launch, times, phases, waiting, rank, positionOf) },
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

/**
 * Of each phase the event that ends it: where that is an arrival, the one that comes last in modelled time, which need not
 * be the emulator's last.
 */
function endersOf(launch: Launch, { start }: Times): Int32Array {
  const { phases, actions, meta, places } = launch;
  const enders = Int32Array.from(phases.event);
  const moments = actionMoments(launch);
  const arrive = meta.actions.indexOf("arrive");
  const arrivals: number[][] = meta.barriers.map(() => []);
  for (let i = 0; i < actions.size; i++)
    if (actions.action[i] === arrive) arrivals[actions.barrier[i] as number]?.push(i);
  for (const mine of arrivals) mine.sort((a, b) => (moments[a] as number) - (moments[b] as number));
  const next = meta.barriers.map(() => 0); // the first arrival that belongs to no phase yet
  const startOf = (event: number) => start[places.indexOf(event)] ?? Number.NEGATIVE_INFINITY;
  for (let phase = 0; phase < phases.size; phase++) {
    const barrier = phases.barrier[phase] as number;
    const mine = arrivals[barrier] ?? [];
    const end = phases.position[phase] as number;
    const asynchronous = phases.asynchronous[phase] as number;
    for (; next[barrier] !== undefined && next[barrier] < mine.length; next[barrier] += 1) {
      const row = mine[next[barrier]] as number;
      const moment = moments[row] as number;
      if (asynchronous ? moment >= end : moment > end) break;
      const [event, last] = [actions.event[row] as number, enders[phase] as number];
      const later = startOf(event) - startOf(last);
      if (!asynchronous && (later > 0 || (later === 0 && event > last))) enders[phase] = event;
    }
  }
  return enders;
}

/** Events that waited: for a barrier or for operations. Who comes after a phase has ended, or ends it, does not wait. */
function waitingEvents(launch: Launch, { start, end, phase }: Times, enders: Int32Array): Uint8Array {
  const { events, waits, actions, phases, places, meta, code } = launch;
  const found = new Uint8Array(events.size);
  const mark = (event: number, passed: number) => {
    const index = places.indexOf(event);
    if (index < 0) return;
    const begun = start[index] as number;
    const late = passed >= 0 && begun >= (phase[passed] as number);
    const ends = passed >= 0 && !phases.asynchronous[passed] && enders[passed] === event;
    if (!late && !ends && (end[index] as number) - begun > WAITED_NS) found[index] = 1;
  };
  const passedBy = new Map<number, number>();
  actions.event.forEach((event, i) => {
    if ((actions.passed[i] as number) >= 0) passedBy.set(event, actions.passed[i] as number);
  });
  const phaseOf = (event: number, known: number) => (known >= 0 ? known : (passedBy.get(event) ?? -1));
  waits.event.forEach((event, i) => {
    mark(event, phaseOf(event, waits.phase[i] as number));
  });
  // the emulator carries operations out where a warp waits for them, which then has nothing to wait for
  const ofOperations = code.operationWaits();
  events.pc.forEach((pc, i) => {
    if (ofOperations.has(pc)) mark(events.at[i] as number, -1);
  });
  // also an arrival that waits (bar.sync), which on the emulator was the last and need not be so here
  const wait = meta.actions.indexOf("wait");
  for (let i = 0; i < actions.size; i++) {
    const passed = actions.passed[i] as number;
    if (actions.action[i] === wait || passed >= 0) mark(actions.event[i] as number, passed);
  }
  return found;
}

/** With the instruction that made them, where one did; the end of a phase where the phase ends. Ascending for each barrier. */
function changePositions(
  launch: Launch,
  times: Times,
  phases: PhaseTable,
  waiting: Uint8Array,
  rank: Int32Array,
  positionOf: (ns: number) => number,
): Int32Array {
  const { actions, meta, places } = launch;
  const { states, state, start } = times;
  const made = new Map<string, { at: number; resets: boolean }[]>();
  const resetting = ["init", "inval"].map((name) => meta.actions.indexOf(name));
  for (let i = 0; i < actions.size; i++) {
    const index = places.indexOf(actions.event[i] as number);
    if (index < 0 || waiting[index]) continue;
    const key = `${actions.barrier[i]} ${start[index]}`;
    const one = { at: rank[index] as number, resets: resetting.includes(actions.action[i] as number) };
    made.set(key, [...(made.get(key) ?? []), one]);
  }
  for (const list of made.values()) list.sort((a, b) => a.at - b.at);
  const ends: number[][] = meta.barriers.map(() => []);
  for (let i = 0; i < phases.size; i++) ends[phases.barrier[i] as number]?.push(phases.position[i] as number);
  const parity = new Map<number, number>();
  const latest = new Map<number, number>();
  return Int32Array.from({ length: states.size }, (_, row) => {
    const barrier = states.barrier[row] as number;
    const by = made.get(`${barrier} ${state[row]}`)?.shift();
    const turned = !by?.resets && states.parity[row] !== (parity.get(barrier) ?? 0);
    const end = turned ? ends[barrier]?.shift() : undefined;
    parity.set(barrier, states.parity[row] as number);
    const at = Math.max(latest.get(barrier) ?? 0, end ?? by?.at ?? positionOf(state[row] as number));
    latest.set(barrier, at);
    return at;
  });
}

/** Who waited in modelled time is not who waited on the emulator: a row per event that did. */
function waitsOf(
  { waits, actions, places, events, meta }: Launch,
  { start }: Times,
  waiting: Uint8Array,
  enders: Int32Array,
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
    const phase = (wait !== undefined ? waits.phase[wait] : actions.passed[action ?? -1]) ?? -1;
    const barrier = action !== undefined ? (actions.barrier[action] as number) : -1;
    const byBarrier = meta.barriers[barrier]?.kind === "mbarrier" ? "mbarrier" : "barrier";
    const kind =
      wait !== undefined
        ? (waits.kind[wait] as number)
        : meta.waitKinds.indexOf(action === undefined ? "async" : byBarrier);
    const cause =
      phase >= 0 ? (enders[phase] as number) : wait !== undefined ? (waits.cause[wait] as number) : -1;
    rows.push([
      positionOf(start[index] as number),
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
  enders: Int32Array,
  renumber: (event: number) => number,
  positionOf: (ns: number) => number,
): PhaseTable {
  const event = enders.map(renumber);
  // an arrival takes a while to be known: at a cluster's barrier hundreds of ns
  const position = event.map((by, i) => Math.max(by, positionOf(times.phase[i] as number)));
  return { ...phases, position, event };
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
    change: (row) => times.state[row] as number,
    began: (wait) => format.duration(start(tables.waits.event[wait] as number)),
    ended: (phase) => format.duration(times.phase[phase] as number),
    done: (operation) => format.duration(times.operationEnd[operation] as number),
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

/** How many of an ascending column are less than a value. */
function countBelow(ascending: Float64Array, value: number): number {
  let count = countUpTo(ascending, value);
  while (count > 0 && ascending[count - 1] === value) count -= 1;
  return count;
}

function nanoseconds(x: number, step: number): string {
  if (step >= 1000) return `${format.count(Math.round(x / 1000))} µs`;
  if (step >= 100) return `${(x / 1000).toFixed(1)} µs`;
  if (step >= 10) return `${(x / 1000).toFixed(2)} µs`;
  return `${format.count(Math.round(x))} ns`;
}
