// Who waits for whom: from warps to what they wait for, and from there to those who still have to come.

import type { State, Wait, Warp } from "./protocol";
import { roleName, warpName } from "./warp_looks";
import { mbarrierName, sharedAddress } from "./words";

export interface WaitNode {
  id: string;
  kind: "warp" | "barrier";
  label: string;
  detail: string;
  /** All there is to say, for hover. */
  title: string;
  /** Of a warp, also where its CTA is not shown. */
  cta?: number;
  warp?: Warp;
}

export interface WaitGraph {
  nodes: WaitNode[];
  /** Pairs of ids; the first waits for the second. */
  edges: [string, string][];
  /** Ids along a cycle, if there is one. */
  cycle: string[];
}

const warpId = (cta: number, warp: number) => `w${cta}.${warp}`;

/** Of a state in which warps wait. Arrivals at a named barrier are owed by every live warp that is not there. */
export function waitGraph(state: State, placeOf: (pc: number) => string): WaitGraph {
  const nodes = new Map<string, WaitNode>();
  const edges: [string, string][] = [];
  const add = (node: WaitNode) => {
    if (!nodes.has(node.id)) nodes.set(node.id, node);
  };
  for (const warp of state.warps) {
    const group = warp.groups.find(([, , wait]) => wait !== "ready");
    if (!group) continue;
    const [pc, , wait, key] = group;
    const id = warpId(warp.cta, warp.warp);
    add({
      id,
      kind: "warp",
      label: roleLabel(warp.warp, warp),
      detail: placeOf(pc),
      title: warpName(warp),
      cta: warp.cta,
      warp,
    });
    const target = awaited(state, warp, wait, key);
    add(target.node);
    edges.push([id, target.node.id]);
    for (const { cta, warp: owing } of target.owing) {
      const other = state.warps.find((each) => each.cta === cta && each.warp === owing);
      if (!other?.groups.length) continue;
      const at = other.groups[0]?.[0] ?? 0;
      add({
        id: warpId(cta, owing),
        kind: "warp",
        label: roleLabel(owing, other),
        detail: placeOf(at),
        title: warpName(other),
        cta,
        warp: other,
      });
      const edge: [string, string] = [target.node.id, warpId(cta, owing)];
      if (!edges.some(([a, b]) => a === edge[0] && b === edge[1])) edges.push(edge);
    }
  }
  return { nodes: [...nodes.values()], edges, cycle: shortestCycle([...nodes.keys()], edges) };
}

/** Of a deadlock whose parties are known: warp, what it waits for, the warp that was to bring it, and so on. */
export function graphOfCycle(waits: Wait[], state: State, placeOf: (ptxLine: number) => string): WaitGraph {
  const nodes: WaitNode[] = [];
  const edges: [string, string][] = [];
  waits.forEach(({ cta, warp, kind, object, ptxLine, waits: sentence, next, nextLine }, i) => {
    const found = state.warps.find((each) => each.cta === cta && each.warp === warp);
    const barrier = kind === "mbarrier" ? sharedAddress(object, found?.rank) : named(kind, object);
    const name = nameOf(state, kind, object, cta);
    const end = nextLine ? `ended at ${placeOf(nextLine)}` : "";
    nodes.push({
      id: `w${i}`,
      kind: "warp",
      label: roleLabel(warp, found),
      detail: placeOf(ptxLine),
      title: `warp ${warp} of CTA ${cta} ${sentence}`,
      cta,
      warp: found,
    });
    nodes.push({
      id: `b${i}`,
      kind: "barrier",
      label: name || barrier,
      detail: name && kind === "mbarrier" ? barrier : end,
      title: [sentence, name && barrier, end].filter(Boolean).join("; "),
    });
    edges.push([`w${i}`, `b${i}`]);
    if (next !== null) edges.push([`b${i}`, `w${next}`]);
  });
  return {
    nodes,
    edges,
    cycle: shortestCycle(
      nodes.map(({ id }) => id),
      edges,
    ),
  };
}

/** Warps with what is to be said before each: its CTA, where that is not the same as before. */
export function withCta(nodes: readonly WaitNode[]): [cta: string, node: WaitNode][] {
  return nodes.map((node, i) => [node.cta === nodes[i - 1]?.cta ? "" : `CTA ${node.cta} `, node]);
}

/** What the launch's events call the barrier, such as "mma→softmax full[0]". */
function nameOf(state: State, kind: string, object: number, cta: number): string {
  if (kind === "mbarrier") return mbarrierName(state, object);
  if (kind !== "barrier") return "";
  return state.barriers.find((each) => each.cta === cta && each.number === object)?.name ?? "";
}

/** "load w9"; without roles "w9". */
function roleLabel(warp: number, found: Warp | undefined): string {
  return `${found?.role ? `${roleName(found.role)} ` : ""}w${warp}`;
}

function named(kind: string, object: number): string {
  if (kind === "barrier") return `barrier ${object}`;
  return kind.replaceAll("_", " ");
}

interface Awaited {
  node: WaitNode;
  owing: { cta: number; warp: number }[];
}

function awaited(state: State, warp: Warp, wait: string, key: number): Awaited {
  if (wait === "barrier") {
    const found = state.barriers.find((each) => each.cta === warp.cta && each.number === key);
    const there = new Set(found?.waiting ?? []);
    const owing = state.warps
      .filter((each) => each.cta === warp.cta && each.groups.length > 0 && !there.has(each.warp))
      .map(({ cta, warp: number }) => ({ cta, warp: number }));
    const detail = found ? `${found.arrived} of ${found.expected} threads came` : "";
    const label = found?.name || `barrier ${key}`;
    return {
      node: { id: `b${warp.cta}.${key}`, kind: "barrier", label, detail, title: detail },
      owing,
    };
  }
  if (wait === "mbarrier") {
    const rank = key >>> 24;
    const offset = key & 0xffffff;
    const found = state.mbarriers.find((each) => each.offset === offset && rankOf(state, each.cta) === rank);
    const bytes = found?.tx ? `, ${found.tx} bytes` : "";
    const detail = found ? `lacks ${found.pending} of ${found.expected} arrivals${bytes}` : "";
    return {
      node: {
        id: `m${key}`,
        kind: "barrier",
        label: sharedAddress(key, warp.rank),
        detail: mbarrierName(state, key) || detail,
        title: detail,
      },
      owing: [],
    };
  }
  if (wait === "cluster_barrier") {
    const owing = state.warps
      .filter(({ groups }) => groups.length > 0 && groups.every(([, , kind]) => kind !== "cluster_barrier"))
      .map(({ cta, warp: number }) => ({ cta, warp: number }));
    return {
      node: { id: "cluster", kind: "barrier", label: "cluster barrier", detail: "", title: "" },
      owing,
    };
  }
  const label = { warp: "other lanes", async: "its operations", resource: "a resource" }[wait] ?? wait;
  return {
    node: { id: `${wait}${warp.cta}.${warp.warp}`, kind: "barrier", label, detail: "", title: "" },
    owing: [],
  };
}

function rankOf(state: State, cta: number): number {
  return state.ctas.find(([linear]) => linear === cta)?.[5] ?? 0;
}

function shortestCycle(ids: string[], edges: [string, string][]): string[] {
  let best: string[] = [];
  for (const start of ids) {
    const from = new Map<string, string>();
    const queue = [start];
    for (let at = queue.shift(); at !== undefined; at = queue.shift()) {
      for (const [a, b] of edges) {
        if (a !== at) continue;
        if (b === start) {
          const path = [at];
          for (let back = from.get(at); back !== undefined; back = from.get(back)) path.unshift(back);
          if (!best.length || path.length < best.length) best = path;
        } else if (!from.has(b)) {
          from.set(b, a);
          queue.push(b);
        }
      }
    }
  }
  return best;
}
