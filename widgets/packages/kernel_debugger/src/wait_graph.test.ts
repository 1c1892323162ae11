import { describe, expect, test } from "vitest";
import type { State, Wait, Warp } from "./protocol";
import { graphOfCycle, type WaitNode, waitGraph, withCta } from "./wait_graph";

const placeOf = (at: number) => `line ${at}`;

function warp(cta: number, number: number, wait: string, key = 0, role: string | null = null): Warp {
  return { cta, rank: cta, warp: number, executed: 1, groups: [[10 + number, 1, wait, key, 0, ""]], role };
}

function state(warps: Warp[], rest: Partial<State> = {}): State {
  const ctas = [...new Set(warps.map(({ cta }) => cta))].map((cta) => [cta, cta, 0, 0, 0, cta, 4]);
  return { warps, ctas, mbarriers: [], barriers: [], ...rest } as unknown as State;
}

describe("who waits for whom", () => {
  test("nothing is drawn where no warp waits", () => {
    expect(waitGraph(state([warp(0, 0, "ready")]), placeOf)).toEqual({ nodes: [], edges: [], cycle: [] });
  });

  test("a named barrier is owed by the live warps of its CTA that are not there", () => {
    const here = warp(0, 0, "barrier", 3, "softmax");
    const ended = { ...warp(0, 2, "ready"), groups: [] };
    const barrier = { cta: 0, number: 3, name: "", waiting: [0], arrived: 32, expected: 64 };
    const shown = state([here, warp(0, 1, "ready"), ended, warp(1, 1, "ready")], {
      barriers: [barrier] as unknown as State["barriers"],
    });
    const { nodes, edges } = waitGraph(shown, placeOf);
    expect(nodes.map(({ label, detail }) => [label, detail])).toEqual([
      ["softmax w0", "line 10"],
      ["barrier 3", "32 of 64 threads came"],
      ["w1", "line 11"],
    ]);
    expect(edges).toEqual([
      ["w0.0", "b0.3"],
      ["b0.3", "w0.1"],
    ]);
  });

  test("two warps at one barrier share it, and each that is owed has one line to it", () => {
    const warps = [warp(0, 0, "barrier", 1), warp(0, 1, "barrier", 1), warp(0, 2, "ready")];
    const barrier = { cta: 0, number: 1, name: "tile full", waiting: [0, 1], arrived: 64, expected: 96 };
    const { nodes, edges } = waitGraph(
      state(warps, { barriers: [barrier] as unknown as State["barriers"] }),
      placeOf,
    );
    expect(nodes.filter(({ kind }) => kind === "barrier").map(({ label }) => label)).toEqual(["tile full"]);
    expect(edges.filter(([from]) => from === "b0.1")).toEqual([["b0.1", "w0.2"]]);
  });

  test("warps that wait for each other's barriers are a cycle", () => {
    const warps = [warp(0, 0, "barrier", 1), warp(0, 1, "barrier", 2)];
    const barriers = [
      { cta: 0, number: 1, name: "", waiting: [0], arrived: 32, expected: 64 },
      { cta: 0, number: 2, name: "", waiting: [1], arrived: 32, expected: 64 },
    ] as unknown as State["barriers"];
    const { cycle } = waitGraph(state(warps, { barriers }), placeOf);
    expect([...cycle].sort()).toEqual(["b0.1", "b0.2", "w0.0", "w0.1"]);
  });

  test("an mbarrier is found by the rank in its address, and says what it lacks", () => {
    const mbarrier = {
      cta: 1,
      offset: 0x40,
      name: "",
      pending: 1,
      expected: 2,
      tx: 4096,
      phase: 0,
      waiting: [],
    };
    const warps = [warp(0, 0, "mbarrier", (1 << 24) | 0x40), warp(1, 0, "ready")];
    const { nodes } = waitGraph(
      state(warps, { mbarriers: [mbarrier] as unknown as State["mbarriers"] }),
      placeOf,
    );
    expect(nodes[1]).toMatchObject({
      label: "rank 1 smem+0x40",
      detail: "lacks 1 of 2 arrivals, 4096 bytes",
    });
  });

  test("the cluster's barrier is owed by warps of all its CTAs that are elsewhere", () => {
    const warps = [warp(0, 0, "cluster_barrier"), warp(1, 0, "ready"), warp(1, 1, "cluster_barrier")];
    const { edges } = waitGraph(state(warps), placeOf);
    expect(edges).toEqual([
      ["w0.0", "cluster"],
      ["cluster", "w1.0"],
      ["w1.1", "cluster"],
    ]);
  });
});

test("warps are said with their CTA, once where neighbours have the same", () => {
  const barrier = { cta: 5, number: 1, name: "", waiting: [0, 1], arrived: 64, expected: 128 };
  const shown = state([warp(5, 0, "barrier", 1), warp(5, 1, "barrier", 1), warp(6, 2, "ready")], {
    barriers: [barrier] as unknown as State["barriers"],
  });
  const warps = waitGraph(shown, placeOf).nodes.filter(({ kind }) => kind === "warp");
  expect(withCta(warps).map(([cta, { label }]) => cta + label)).toEqual(["CTA 5 w0", "w1"]);
  const lost: Wait = {
    cta: 7,
    warp: 3,
    ptxLine: 7,
    kind: "barrier",
    object: 1,
    waits: "",
    next: null,
    nextLine: 0,
  };
  const [gone] = graphOfCycle([lost], shown, placeOf).nodes; // of a cluster that is not shown
  expect(withCta([...warps, gone as WaitNode]).map(([cta]) => cta)).toEqual(["CTA 5 ", "", "CTA 7 "]);
});

test("a deadlock's cycle closes, and a party that has ended says where", () => {
  const waits: Wait[] = [
    { cta: 0, warp: 0, ptxLine: 7, kind: "barrier", object: 1, waits: "waits", next: 1, nextLine: 0 },
    { cta: 0, warp: 1, ptxLine: 9, kind: "barrier", object: 2, waits: "waits", next: 0, nextLine: 0 },
  ];
  const shown = state([warp(0, 0, "barrier", 1, "load"), warp(0, 1, "barrier", 2)]);
  const closed = graphOfCycle(waits, shown, placeOf);
  expect(closed.cycle).toHaveLength(4);
  expect(closed.nodes[0]).toMatchObject({ label: "load w0", detail: "line 7" });
  const open = graphOfCycle([{ ...(waits[0] as Wait), next: null, nextLine: 30 }], shown, placeOf);
  expect(open.cycle).toEqual([]);
  expect(open.nodes[1]).toMatchObject({ label: "barrier 1", detail: "ended at line 30" });
});
