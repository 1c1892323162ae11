// One cluster of a recorded launch, as sglab/widgets/launch_view.py sends it: columns, and what they are called.

import type { Source, Tensor } from "../core";
import { type Clock, issueClock } from "./clock";
import { type Code, decodeCode } from "./code";
import { Places } from "./places";

export type BarrierKind = "named" | "mbarrier" | "cluster";

export interface Barrier {
  kind: BarrierKind;
  /** Of the CTA it belongs to, in the cluster. */
  rank: number;
  /** Number, or offset in shared memory. */
  object: number;
  name: string;
}

/** Barriers that take turns, one pair per stage. */
export interface Pipeline {
  name: string;
  rank: number;
  producers: string[];
  consumers: string[];
  /** Barriers by stage. */
  full: number[];
  /** Barriers by stage; none where the order of the work alone frees a stage. */
  empty: number[];
}

export interface LaunchMeta {
  kernel: string;
  /** Warp-instructions of the whole launch. */
  length: number;
  cluster: number;
  clusters: number;
  ctas: number[];
  /** CTAs of the whole grid. */
  gridCtas: number;
  warps: number;
  /** By row: rank · warps + warp. */
  roles: string[];
  waitKinds: string[];
  operationKinds: string[];
  actions: string[];
  barriers: Barrier[];
  pipelines: Pipeline[];
  error?: string;
  /** There are modelled times, of this GPU. */
  timed?: { product: string; total: number };
}

type Column = Int32Array;

export interface Events {
  size: number;
  at: Column;
  row: Column;
  pc: Column;
  mask: Column;
}

export interface WaitTable {
  size: number;
  since: Column;
  event: Column;
  row: Column;
  kind: Column;
  barrier: Column;
  phase: Column;
  cause: Column;
}

export interface PhaseTable {
  size: number;
  position: Column;
  barrier: Column;
  number: Column;
  event: Column;
  asynchronous: Column;
}

/** Barriers behind each change. */
export interface StateTable {
  size: number;
  position: Column;
  barrier: Column;
  parity: Column;
  pending: Column;
  expected: Column;
  tx: Column;
}

export interface ActionTable {
  size: number;
  event: Column;
  barrier: Column;
  action: Column;
  passed: Column;
  parity: Column;
}

export interface OperationTable {
  size: number;
  event: Column;
  done: Column;
  row: Column;
  track: Column;
  kind: Column;
  barrier: Column;
  bytes: Column;
  count: Column;
  last: Column;
  detail: Column;
}

export interface LaunchTables {
  events: Events;
  waits: WaitTable;
  phases: PhaseTable;
  states: StateTable;
  actions: ActionTable;
  operations: OperationTable;
}

export interface Launch extends LaunchTables {
  meta: LaunchMeta;
  code: Code;
  places: Places;
  clock: Clock;
}

const NAMES = ["events", "waits", "phases", "states", "actions", "operations", "code"] as const;

/** Everything at once: a cluster's columns are small. Undefined where other columns came meanwhile. */
export async function readLaunch(source: Source): Promise<Launch | undefined> {
  const revision = source.get<number>("revision");
  const meta = source.get<LaunchMeta>("launch");
  const tensors = await Promise.all(NAMES.map((name) => source.slice(name, 0, 1e9)));
  if (source.get<number>("revision") !== revision) return undefined;
  const [events, waits, phases, states, actions, operations, code] = tensors as [
    Tensor,
    Tensor,
    Tensor,
    Tensor,
    Tensor,
    Tensor,
    Tensor,
  ];
  const read = {
    events: table(events, ["at", "row", "pc", "mask"]),
    waits: table(waits, ["since", "event", "row", "kind", "barrier", "phase", "cause"]),
    phases: table(phases, ["position", "barrier", "number", "event", "asynchronous"]),
    states: table(states, ["position", "barrier", "parity", "pending", "expected", "tx"]),
    actions: table(actions, ["event", "barrier", "action", "passed", "parity"]),
    operations: table(operations, [
      "event",
      "done",
      "row",
      "track",
      "kind",
      "barrier",
      "bytes",
      "count",
      "last",
      "detail",
    ]),
  };
  const places = new Places(read.events.at);
  return {
    meta,
    code: decodeCode(code.data as Uint8Array),
    ...read,
    places,
    clock: issueClock(read, places),
  };
}

function table<const Name extends string>(
  tensor: Tensor,
  names: readonly Name[],
): { size: number } & Record<Name, Column> {
  const size = tensor.shape[1] ?? 0;
  const columns = names.map((name, i) => [name, tensor.data.subarray(i * size, (i + 1) * size)]);
  return { size, ...Object.fromEntries(columns) };
}
