import { expect, test } from "vitest";
import { nextToGo } from "./pool";
import type { Kind, NodeChange, Op } from "./protocol";
import { layoutOf, TreeStates } from "./states";
import { changesTree, sentence } from "./words";

const op = (kind: Kind, over: Partial<Op> = {}): Op => ({
  kind,
  step: 0,
  pool: [8, 0, 0],
  clock: 0,
  set: [],
  rid: -1,
  ...over,
});
const node = (id: number, parent: number, tokens: number, over: Partial<NodeChange> = {}): NodeChange => ({
  id,
  parent,
  lock: 0,
  at: id,
  text: "x".repeat(tokens),
  tokens,
  pages: [[id, id]],
  ...over,
});

function grown(): TreeStates {
  const states = new TreeStates();
  states.add(op("start", { set: [node(0, -1, 0, { lock: 1 })] }));
  states.add(op("insert", { rid: 0, tokens: 8, aligned: 8, path: [1], set: [node(1, 0, 8)] }));
  states.add(op("split", { rid: 1, tokens: 8, found: 4, path: [2, 1], set: [node(2, 0, 4), node(1, 2, 4)] }));
  states.add(op("insert", { rid: 1, tokens: 10, aligned: 8, found: 4, path: [2, 3], set: [node(3, 2, 4)] }));
  states.add(
    op("lock", {
      rid: 1,
      found: 8,
      path: [2, 3],
      set: [
        { id: 3, parent: 2, lock: 1, at: 3 },
        { id: 2, parent: 0, lock: 1, at: 9 },
      ],
    }),
  );
  states.add(op("evict", { tokens: 4, found: 4, del: [1], evicted: [[1, 4, 1, "oldest"]] }));
  return states;
}

test("the tree after any operation, forwards and backwards", () => {
  const states = grown();
  const shape = (index: number) =>
    [...states.at(index).values()].map(({ id, parent, tokens }) => [id, parent, tokens]);
  expect(shape(1)).toEqual([
    [0, -1, 0],
    [1, 0, 8],
  ]);
  expect(shape(3)).toEqual([
    [0, -1, 0],
    [1, 2, 4],
    [2, 0, 4],
    [3, 2, 4],
  ]);
  expect(shape(5)).toEqual([
    [0, -1, 0],
    [2, 0, 4],
    [3, 2, 4],
  ]);
  expect(shape(1)).toEqual([
    [0, -1, 0],
    [1, 0, 8],
  ]);
  expect(states.at(4).get(3)?.text).toBe("xxxx"); // a lock says nothing of tokens
});

test("more operations than are kept as a tree", () => {
  const states = grown();
  for (let i = 0; i < 500; i++) states.add(op("insert", { set: [node(10 + i, 0, 1)] }));
  for (const index of [505, 200, 64, 65, 128, 6])
    expect(states.at(index).size).toBe(3 + Math.max(0, index - 5));
});

test("who holds a lock", () => {
  const states = grown();
  expect(states.holders(4)).toEqual(new Map([[3, [1]]]));
  states.add(op("unlock", { rid: 1, path: [2, 3] }));
  expect(states.holders(6).get(3)).toEqual([]);
});

test("what was evicted keeps its place as a ghost", () => {
  const states = grown();
  const { places, rows, tokens } = layoutOf(states.at(5), states.at(4), [1]);
  expect(places.get(1)).toMatchObject({ ghost: true, row: 0, start: 4 });
  expect(places.get(3)).toMatchObject({ ghost: false, row: 1, start: 4 });
  expect([rows, tokens]).toEqual([2, 8]);
});

test("which leaves would go, in order: a parent after its children, nothing that is locked", () => {
  const states = grown();
  expect(nextToGo(states.at(3)).map(({ id }) => id)).toEqual([1, 3, 2]);
  expect(nextToGo(states.at(4)).map(({ id }) => id)).toEqual([1]);
});

test("a parent goes when all below it is on the host alone, and what is there does not go", () => {
  const states = grown();
  states.add(op("evict", { set: [{ id: 3, parent: 2, lock: 0, at: 3, where: [0, 1] }] }));
  states.add(op("unlock", { set: [{ id: 2, parent: 0, lock: 0, at: 9 }] }));
  expect(nextToGo(states.at(7)).map(({ id }) => id)).toEqual([2]);
});

test("operations in words", () => {
  const { ops } = grown();
  const said = ops.map((each) => sentence(each, ["a", "b"], 4));
  expect(said[1]).toBe("a: inserted 8 tokens: node 1 has the 8 new tokens.");
  expect(sentence(op("start", { set: [node(0, -1, 0)] }), [], 4)).toContain("empty");
  expect(sentence(op("start", { set: [node(0, -1, 0), node(1, 0, 4)] }), [], 4)).toContain(
    "before is not kept",
  );
  expect(sentence(op("insert", { rid: 0, tokens: 3 }), ["a"], 4)).toBe(
    "a: 3 tokens to insert, none of them in a whole page of 4: nothing comes.",
  );
  expect(sentence(op("match", { rid: 0, tokens: 3 }), ["a"], 4)).toBe(
    "a: of 3 tokens looked up, the tree has none. That fills no page of 4: it stays out.",
  );
  expect(sentence(op("match", { rid: 0, tokens: 5, aligned: 4 }), ["a"], 4)).toContain(
    "The last token fills no page of 4: it stays out.",
  );
  expect(said[2]).toContain("b: node 1 was split after 4 of its 8 tokens, the border of a page of 4");
  expect(said[3]).toContain(
    "4 of them known: node 3 has the 4 new tokens. The last 2 tokens fill no page of 4",
  );
  expect(said[4]).toBe("b: locked node 3 and what is above it. 8 tokens can no longer be evicted.");
  expect(said[5]).toBe("Room for 4 tokens: 1 node (1) with 4 tokens evicted, least recently used first.");
  expect(sentence(op("unlock", { rid: 0, path: [3], found: 1 }), ["a"], 4)).toContain(
    "1 more token can be evicted now.",
  );
  expect(sentence(op("evict", { tokens: 4, pool: [0, 0, 8] }), [], 4)).toBe(
    "Room for 4 tokens was asked for; every node in the pool is locked.",
  );
  expect(sentence(op("evict", { tokens: 4, pool: [16, 0, 0] }), [], 4)).toBe(
    "Room for 4 tokens was asked for; the tree has no node in the pool.",
  );
});

test("an insert that brings no page changes nothing", () => {
  expect(changesTree(op("insert", { tokens: 3 }))).toBe(false); // Python leaves out what is 0
  expect(changesTree(op("insert", { tokens: 8, aligned: 8, found: 8, path: [1] }))).toBe(false);
  expect(changesTree(op("insert", { tokens: 8, aligned: 8, path: [1] }))).toBe(true);
  expect(changesTree(op("evict", { tokens: 4 }))).toBe(false);
  expect(changesTree(op("split"))).toBe(true);
});

test("a request's nodes are those that it found or inserted last and that are still there", () => {
  const states = grown();
  const of = (request: number, index: number) => states.nodesOf(request, index, states.at(index));
  expect(of(0, 1)).toEqual([1]);
  expect(of(0, 2)).toEqual([2, 1]); // its node was split since
  expect(of(1, 4)).toEqual([2, 3]);
  expect(of(0, 5)).toEqual([]); // node 1 was evicted: what is above it may be anyone's
  expect(of(7, 5)).toEqual([]);
  expect(states.ofRequest(1)).toEqual([2, 3, 4]);
});
