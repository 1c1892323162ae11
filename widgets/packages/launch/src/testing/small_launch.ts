// A launch small enough to be read, for tests: one CTA of two warps, of a grid in which others ran between them.
// Warp 0 initialises full[0], issues a copy and announces its bytes; warp 1 has been waiting since position 1, multiplies,
// and gives the stage back at empty[0], where warp 0 need not wait.

import { issueClock } from "../clock";
import { Code } from "../code";
import type { Launch, LaunchMeta, LaunchTables } from "../data";
import { Places } from "../places";

const META: LaunchMeta = {
  kernel: "small",
  length: 20,
  cluster: 4,
  clusters: 8,
  ctas: [4],
  gridCtas: 8,
  warps: 2,
  roles: ["load", "mma"],
  waitKinds: ["mbarrier", "async", "warp"],
  operationKinds: ["copy", "mma"],
  copyKinds: ["tensor"],
  maps: [{ element: "f16", dims: [64, 128], box: [64, 8] }],
  actions: ["init", "inval", "arrive", "expect_tx", "wait"],
  barriers: [
    { kind: "mbarrier", rank: 0, object: 0x36d80, name: "full[0]" },
    { kind: "mbarrier", rank: 0, object: 0x36d88, name: "empty[0]" },
    { kind: "named", rank: 0, object: 3, name: "barrier 3" },
  ],
  pipelines: [{ name: "kv", rank: 0, producers: ["load"], consumers: ["mma"], full: [0], empty: [1] }],
  error: "",
};
const OPCODES = [
  "mbarrier.init",
  "cp.async.bulk.tensor",
  "mbarrier.arrive.expect_tx",
  "mbarrier.try_wait",
  "tcgen05.mma",
  "add.s32",
  "mbarrier.arrive",
  "mbarrier.try_wait",
];
/** The last two are on one line of the source. */
const LINES = [10, 12, 13, 20, 21, 14, 22, 22];

/** Columns of a table, given row by row. */
function table<const Name extends string>(names: readonly Name[], rows: number[][]) {
  const columns = names.map((name, i) => [name, Int32Array.from(rows, (row) => row[i] as number)]);
  return { size: rows.length, ...Object.fromEntries(columns) } as { size: number } & Record<Name, Int32Array>;
}

function tables(): LaunchTables {
  return {
    events: table(
      ["at", "row", "pc", "mask"],
      [
        [0, 0, 0, 1],
        [2, 0, 1, 1],
        [3, 0, 2, 1],
        [7, 1, 3, -1],
        [8, 1, 4, 1],
        [11, 0, 5, -1],
        [12, 1, 6, 1],
        [14, 0, 7, -1],
      ],
    ),
    waits: table(["since", "event", "row", "kind", "barrier", "phase", "cause"], [[1, 7, 1, 0, 0, 0, 2]]),
    phases: table(
      ["position", "barrier", "number", "event", "asynchronous"],
      [
        [6, 0, 0, 2, 1],
        [12, 1, 0, 12, 0],
      ],
    ),
    states: table(
      ["position", "barrier", "parity", "pending", "expected", "tx"],
      [
        [0, 0, 0, 1, 1, 0],
        [0, 1, 0, 1, 1, 0],
        [3, 0, 0, 0, 1, 4096],
        [6, 0, 1, 1, 1, 0],
        [12, 1, 1, 1, 1, 0],
      ],
    ),
    actions: table(
      ["event", "barrier", "action", "passed", "parity"],
      [
        [0, 0, 0, -1, 0],
        [3, 0, 3, -1, 0],
        [7, 0, 4, 0, 0],
        [12, 1, 2, -1, 0],
        [14, 1, 4, 1, 0],
      ],
    ),
    operations: table(
      ["event", "done", "row", "track", "kind", "barrier", "bytes", "count", "last", "detail"],
      [
        [2, 6, 0, 0, 0, 0, 4096, 1, 2, 0],
        [8, 11, 1, 1, 1, -1, 0, 4, 8, 0],
      ],
    ),
    copies: table(
      ["event", "kind", "map", "x0", "x1", "x2", "x3", "x4", "bytes", "shared", "multicast"],
      [[2, 0, 0, 0, 56, 0, 0, 0, 4096, 0x400, 0]],
    ),
    reads: table(["event", "page", "request", "token", "tokens"], [[2, 7, 1, 256, 64]]),
    pageCtas: table(
      ["page", "request", "token", "cta"],
      [
        [7, 1, 256, 4],
        [8, 1, 320, 5],
        [9, 2, 0, 6],
      ],
    ),
  };
}

function code(): Code {
  const pcs = OPCODES.map((_, pc) => pc);
  return new Code({
    pc: pcs,
    line: pcs.map((pc) => 100 + pc),
    text: OPCODES.map((opcode) => `${opcode} …;`),
    opcode: pcs,
    kind: [0, 1, 0, 0, 2, 3, 0, 0],
    chain: pcs,
    opcodes: OPCODES,
    kinds: ["barrier", "async", "matrix", "integer"],
    files: ["/src/small.cu"],
    chains: LINES.map((line) => [[0, line]]),
  });
}

export function smallLaunch(): Launch {
  const made = tables();
  const places = new Places(made.events.at);
  return { meta: META, code: code(), ...made, places, clock: issueClock(made, places, META) };
}
