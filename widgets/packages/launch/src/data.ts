// One cluster of a recorded launch, as sglab/widgets/launch_view.py sends it: columns, and what they are called.

import type { Tensor, TensorName } from "@sglab/protocol";
import { type Clock, issueClock } from "./clock";
import { type Code, decodeCode } from "./code";
import { Places } from "./places";
import type { Launched, LaunchSource } from "./protocol";
import type { LaunchMeta, LaunchTables } from "./tables";

export type * from "./tables";

export interface Launch extends LaunchTables {
  meta: LaunchMeta;
  code: Code;
  places: Places;
  clock: Clock;
}

const COLUMNS = {
  events: ["at", "row", "pc", "mask"],
  waits: ["since", "event", "row", "kind", "barrier", "phase", "cause"],
  phases: ["position", "barrier", "number", "event", "asynchronous"],
  states: ["position", "barrier", "parity", "pending", "expected", "tx"],
  actions: ["event", "barrier", "action", "passed", "parity"],
  operations: ["event", "done", "row", "track", "kind", "barrier", "bytes", "count", "last", "detail"],
  copies: ["event", "kind", "map", "x0", "x1", "x2", "x3", "x4", "bytes", "shared", "multicast"],
  page_reads: ["event", "page", "request", "token", "tokens"],
  page_ctas: ["page", "request", "token", "cta"],
} as const;

/** Everything in one request: a cluster's columns are small. Undefined where other columns came meanwhile. */
export async function readLaunch(source: LaunchSource): Promise<Launch | undefined> {
  const revision = source.get("revision");
  const meta = source.get("launch");
  const whole = (name: TensorName<Launched>) => source.slice(name, 0, 1e9);
  const names = Object.keys(COLUMNS) as (keyof typeof COLUMNS)[];
  const [code, ...tensors] = (await Promise.all(["code" as const, ...names].map(whole))) as [
    Tensor,
    ...Tensor[],
  ];
  if (source.get("revision") !== revision) return undefined;
  const read = <Name extends keyof typeof COLUMNS>(name: Name) =>
    table(tensors[names.indexOf(name)] as Tensor, COLUMNS[name]) as { size: number } & Record<
      (typeof COLUMNS)[Name][number],
      Int32Array
    >;
  const tables: LaunchTables = {
    events: read("events"),
    waits: read("waits"),
    phases: read("phases"),
    states: read("states"),
    actions: read("actions"),
    operations: read("operations"),
    copies: read("copies"),
    reads: read("page_reads"),
    pageCtas: read("page_ctas"),
  };
  const places = new Places(tables.events.at);
  return {
    meta,
    code: decodeCode(code.data as Uint8Array),
    ...tables,
    places,
    clock: issueClock(tables, places, meta),
  };
}

function table<const Name extends string>(
  tensor: Tensor,
  names: readonly Name[],
): { size: number } & Record<Name, Int32Array> {
  const size = tensor.shape[1] ?? 0;
  const columns = names.map((name, i) => [name, tensor.data.subarray(i * size, (i + 1) * size)]);
  return { size, ...Object.fromEntries(columns) };
}
