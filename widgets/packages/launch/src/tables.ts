// What a cluster of a recorded launch is made of: its tables, by column, and what their numbers mean.

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

/** A tensor map; dimension 0 first. */
export interface MapInfo {
  element: string;
  dims: number[];
  box: number[];
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
  copyKinds: string[];
  maps: MapInfo[];
  actions: string[];
  barriers: Barrier[];
  pipelines: Pipeline[];
  error: string;
  /** Of a launch that failed, the instruction that the error names first, where it names one: who waits, and where. */
  failed?: { cta: number; warp: number; line: number };
  /** There are modelled times, of this GPU. */
  timed?: { product: string; total: number };
  /** Why these say little, where a loop waits for a word of memory; else empty. */
  spin?: string;
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

/** Barriers after each change. */
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

/** Asynchronous copies, one by one; map: -1 for none. */
export interface CopyTable {
  size: number;
  event: Column;
  kind: Column;
  map: Column;
  x0: Column;
  x1: Column;
  x2: Column;
  x3: Column;
  x4: Column;
  bytes: Column;
  shared: Column;
  multicast: Column;
}

/** What the cluster's instructions read of the KV pool; request -1: no request's page. */
export interface ReadTable {
  size: number;
  event: Column;
  page: Column;
  request: Column;
  token: Column;
  tokens: Column;
}

/** Which CTAs of the whole launch read which page; token: the first of the request's that they read there. */
export interface PageCtaTable {
  size: number;
  page: Column;
  request: Column;
  token: Column;
  cta: Column;
}

export interface LaunchTables {
  events: Events;
  waits: WaitTable;
  phases: PhaseTable;
  states: StateTable;
  actions: ActionTable;
  operations: OperationTable;
  copies: CopyTable;
  reads: ReadTable;
  pageCtas: PageCtaTable;
}
