import { describe, expect, it } from "vitest";
import type { Pass, Recorded, TreeNode } from "./data";
import { nodeFacts, saidBeside } from "./details";
import { placeNodes } from "./layout";
import { sees } from "./mask_view";
import { summary } from "./run_view";
import { momentsOf, Steps, walkOf } from "./steps";
import { probability } from "./words";

/** A tree as Python sends it: [token, parent, chosen]; links are made here as SGLang makes them. */
function tree(rows: [token: number, parent: number, chosen: number][], kept: number[], plain = false): Pass {
  const nodes = rows.map(([token, parent, chosen], i): TreeNode => {
    const children = rows.flatMap(([, up], child) => (up === i ? [child] : []));
    const siblings = rows.flatMap(([, up], other) => (up === parent && other > i ? [other] : []));
    const place = kept.indexOf(i);
    return {
      token,
      parent,
      depth: 0,
      nextToken: children[0] ?? -1,
      nextSibling: parent < 0 ? -1 : (siblings[0] ?? -1),
      slot: 40 + i,
      chosen,
      kept: place,
      movedTo: place >= 0 && place !== i ? 40 + place : -1,
      position: 0,
      score: Number.NaN,
      probability: 0.5,
      likely: [],
    };
  });
  for (const node of nodes) node.depth = node.parent < 0 ? 0 : (nodes[node.parent]?.depth ?? 0) + 1;
  const accepted = kept.length - 1;
  const bonus = nodes[kept.at(-1) ?? 0]?.chosen ?? 0;
  const gained = accepted + 1;
  return { number: 7, nodes, prefix: 12, accepted, offered: 0, bonus, gained, plain, row: 0 };
}

// 0 ─ 1 ─ 3
//  ╰─ 2 ─ 4
const branching: [number, number, number][] = [
  [10, -1, 12],
  [11, 0, 99],
  [12, 0, 14],
  [13, 1, 99],
  [14, 2, 77],
];

function run(...passes: Pass[]): Recorded {
  const info = {
    algorithm: "NGRAM",
    drafted: 0,
    accepted: 0,
    numbers: passes.map(({ number }) => number),
    pageSize: 16,
  };
  return { requests: [], request: 0, step: 0, run: info, texts: { 12: "a", 14: " " }, passes };
}

describe("the walk", () => {
  it("tries siblings in order, keeps what the target says, and ends with the bonus token", () => {
    const pass = tree(branching, [0, 2, 4]);
    expect(walkOf(pass, 0).map(({ node, child, matches }) => [node, child, matches])).toEqual([
      [0, 1, false],
      [0, 2, true],
      [2, 4, true],
      [4, -1, false],
    ]);
  });

  it("keeps nothing where no draft may be accepted", () => {
    expect(walkOf(tree(branching, [0], true), 0)).toHaveLength(1);
  });
});

describe("a node that was not compared", () => {
  const why = (pass: Pass, node: number) => {
    const recorded = run(pass);
    const steps = new Steps(recorded);
    return new Map(nodeFacts(recorded, pass, steps.standing(steps.moments.length), node)).get("state");
  };

  it("says why: above it nothing is kept, or a sibling was", () => {
    const first = tree(branching.with(0, [10, -1, 11]), [0, 1]);
    expect(why(first, 2)).toBe("never compared: a sibling before it is kept");
    expect(why(first, 4)).toBe("never compared: not below a kept node");
    expect(why(first, 3)).toBe("refused: it is not what the target says");
    expect(why(tree(branching, [0], true), 1)).toBe("never compared: the pass accepts no draft");
  });
});

it("what was said is told where it is not among the likeliest tokens", () => {
  const pass = tree([[10, -1, 12]], [0]);
  const likely = (token: number) => [{ token, probability: 0.4 }];
  const root = pass.nodes[0] as TreeNode;
  expect(saidBeside(run(pass), { ...pass, nodes: [{ ...root, likely: likely(14) }] }, 0)).toBe(
    "Said: “a”, less likely than these 1.",
  );
  expect(saidBeside(run(pass), { ...pass, nodes: [{ ...root, likely: likely(12) }] }, 0)).toBeUndefined();
});

describe("moments", () => {
  it("go through the phases in order, and say when nothing moves", () => {
    const phases = momentsOf(tree(branching, [0, 1, 3]), 0).map(({ phase }) => phase);
    expect([...new Set(phases)]).toEqual(["build", "mask", "verify", "accept", "compact"]);
    const still = momentsOf(tree([[10, -1, 5]], [0]), 0).at(-1);
    expect([still?.phase, still?.node]).toEqual(["compact", -1]);
  });

  it("stand for a position: what is built, masked, judged and moved by then", () => {
    const steps = new Steps(run(tree(branching, [0, 2, 4]), tree(branching, [0])));
    const end = steps.ends[0] as number;
    expect(steps.standing(0)).toMatchObject({ pass: 0, built: 0, masked: 0, verified: false, ended: false });
    expect(steps.standing(3)).toMatchObject({ built: 3, masked: 0 });
    expect(steps.standing(11)).toMatchObject({ built: 5, masked: 5, verified: true, ended: false });
    expect(steps.standing(end)).toMatchObject({ pass: 0, ended: true, moved: [2, 4], compacted: true });
    expect(steps.standing(end + 1)).toMatchObject({ pass: 1, built: 1, verified: false });
  });

  it("are told in sentences", () => {
    const steps = new Steps(run(tree(branching, [0, 2, 4])));
    const all = Array.from({ length: steps.moments.length + 1 }, (_, i) => steps.describe(i));
    expect(all[0]).toBe("Nothing is drafted yet.");
    expect(all).toContain("Pass 7, accept: after node 0 the target says “a”, which node 2 holds: kept.");
    expect(all.at(-1)).toBe("Pass 7, compact: the KV row of node 4 is copied from slot 44 to slot 42.");
    expect(new Set(all).size).toBe(all.length);
  });
});

it("places a parent in the middle of its children", () => {
  const { places, rows, columns } = placeNodes(tree(branching, [0]).nodes);
  expect([rows, columns]).toEqual([2, 3]);
  expect(places.map(({ row }) => row)).toEqual([0.5, 0, 1, 0, 1]);
});

it("a node sees itself and its ancestors", () => {
  const pass = tree(branching, [0]);
  expect([4, 2, 0].every((other) => sees(pass, 4, other))).toBe(true);
  expect([1, 3].some((other) => sees(pass, 4, other))).toBe(false);
});

it("words", () => {
  expect(summary([tree(branching, [0, 2, 4]), tree(branching, [0])])).toBe(
    "2 of 8 drafts kept (25 %) · 2.00 tokens per pass; plain decoding has 1",
  );
  const ended = { ...tree(branching, [0, 2, 4]), gained: 1 };
  expect(summary([tree(branching, [0, 2, 4]), ended])).toContain("4 of 8 drafts kept (50 %) · 2.00 tokens");
  expect([Number.NaN, 0, 1e-6, 0.0031, 0.5].map(probability)).toEqual([
    "–",
    "0",
    "<0.0001",
    "0.0031",
    "0.50",
  ]);
});
