// The tree after any number of operations, and which requests hold locks in it.

import type { NodeChange, Op } from "./protocol";

export interface TreeNode {
  id: number;
  parent: number;
  lock: number;
  at: number;
  device: boolean;
  host: boolean;
  text: string;
  tokens: number;
  pages: [number, number][];
  space: string;
}

export type Tree = ReadonlyMap<number, TreeNode>;

const FINDS = new Set(["match", "insert", "lock", "load"]);
const EVERY = 64; // operations between two trees that are kept

export class TreeStates {
  readonly ops: Op[] = [];
  #kept: Map<number, TreeNode>[] = [];

  add(op: Op): void {
    this.ops.push(op);
  }

  /** After operations 0 … index. */
  at(index: number): Tree {
    const from = Math.floor(index / EVERY);
    for (let i = this.#kept.length; i <= from; i++) {
      const before = new Map(this.#kept[i - 1] ?? []);
      const first = i === 0 ? 0 : (i - 1) * EVERY + 1;
      for (let op = first; op <= i * EVERY; op++) apply(before, this.ops[op]);
      this.#kept.push(before);
    }
    const tree = new Map(this.#kept[from] ?? []);
    for (let op = from * EVERY + 1; op <= index; op++) apply(tree, this.ops[op]);
    return tree;
  }

  /** Node -> requests that hold a lock which ends there, after operations 0 … index. */
  holders(index: number): Map<number, number[]> {
    const found = new Map<number, number[]>();
    for (const op of this.ops.slice(0, index + 1)) {
      const node = op.path?.at(-1);
      if (node === undefined || op.rid < 0) continue;
      const mine = found.get(node) ?? [];
      if (op.kind === "lock") found.set(node, [...mine, op.rid]);
      if (op.kind === "unlock" && mine.includes(op.rid)) {
        mine.splice(mine.indexOf(op.rid), 1);
        found.set(node, [...mine]);
      }
    }
    return found;
  }

  /** The nodes that hold a request's tokens after operations 0 … index, from the first: what it last inserted or found there. */
  nodesOf(request: number, index: number, tree: Tree): number[] {
    const last = this.ops
      .slice(0, index + 1)
      .findLast(({ rid, kind, path }) => rid === request && FINDS.has(kind) && path?.length);
    const nodes: number[] = [];
    const deepest = last?.path?.findLast((node) => tree.has(node)); // what was below is evicted
    for (let at = tree.get(deepest ?? -1); at && at.parent >= 0; at = tree.get(at.parent))
      nodes.unshift(at.id);
    return nodes;
  }

  /** The operations of a request, ascending. */
  ofRequest(request: number): number[] {
    return this.ops.flatMap(({ rid }, i) => (rid === request ? [i] : []));
  }

  /** Operations that concern a node, ascending. */
  of(node: number): number[] {
    return this.ops.flatMap((op, i) => {
      const touched =
        op.path?.includes(node) ||
        op.set.some(({ id }) => id === node) ||
        op.evicted?.some(([id]) => id === node);
      return touched ? [i] : [];
    });
  }
}

function apply(tree: Map<number, TreeNode>, op: Op | undefined): void {
  if (!op) return;
  if (op.kind === "start" || op.kind === "reset") tree.clear();
  for (const change of op.set) tree.set(change.id, merged(tree.get(change.id), change));
  for (const node of op.del ?? []) tree.delete(node);
}

function merged(before: TreeNode | undefined, change: NodeChange): TreeNode {
  const { id, parent, lock, at, where } = change;
  return {
    id,
    parent,
    lock,
    at,
    device: where ? Boolean(where[0]) : true,
    host: where ? Boolean(where[1]) : false,
    text: change.text ?? before?.text ?? "",
    tokens: change.tokens ?? before?.tokens ?? 0,
    pages: change.pages ?? before?.pages ?? [],
    space: change.space ?? before?.space ?? "",
  };
}

/** A node's place: its tokens from left to right, its row from above. */
export interface Place {
  node: TreeNode;
  row: number;
  /** Tokens before it. */
  start: number;
  /** Gone by the operation that is shown. */
  ghost: boolean;
  children: number[];
}

export interface Layout {
  places: Map<number, Place>;
  rows: number;
  /** Tokens of the longest path. */
  tokens: number;
}

/** Leaves have a row each; a node stands in the row of its first child. What is gone keeps its place, as a ghost. */
export function layoutOf(tree: Tree, before: Tree, gone: readonly number[]): Layout {
  const all = new Map(tree);
  for (const node of gone) {
    const was = before.get(node);
    if (was && !all.has(node)) all.set(node, was);
  }
  const children = new Map<number, TreeNode[]>();
  for (const node of all.values()) children.set(node.parent, [...(children.get(node.parent) ?? []), node]);
  const places = new Map<number, Place>();
  let rows = 0;
  let tokens = 0;
  const visit = (node: TreeNode, start: number): void => {
    const below = (children.get(node.id) ?? []).sort((a, b) => a.id - b.id);
    places.set(node.id, {
      node,
      row: rows,
      start,
      ghost: !tree.has(node.id),
      children: below.map(({ id }) => id),
    });
    tokens = Math.max(tokens, start + node.tokens);
    below.forEach((child, i) => {
      if (i) rows += 1;
      visit(child, start + node.tokens);
    });
  };
  for (const root of children.get(-1) ?? []) visit(root, 0);
  return { places, rows: rows + 1, tokens };
}
