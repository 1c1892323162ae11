// Where the nodes of a tree go: a column per depth, a row per leaf.

import type { TreeNode } from "./data";

export interface Place {
  column: number;
  /** May lie between two rows: a parent is in the middle of its children. */
  row: number;
}

/** Parents come before their children. Returns the places and how many rows and columns they take. */
export function placeNodes(nodes: readonly Pick<TreeNode, "parent" | "depth">[]): {
  places: Place[];
  rows: number;
  columns: number;
} {
  const children: number[][] = nodes.map(() => []);
  nodes.forEach(({ parent }, node) => {
    if (parent >= 0) children[parent]?.push(node);
  });
  const places: Place[] = nodes.map(({ depth }) => ({ column: depth, row: 0 }));
  let rows = 0;
  const visit = (node: number): number => {
    const below = (children[node] as number[]).map(visit);
    const row = below.length ? ((below[0] as number) + (below.at(-1) as number)) / 2 : rows++;
    (places[node] as Place).row = row;
    return row;
  };
  if (nodes.length) visit(0);
  return { places, rows, columns: Math.max(0, ...nodes.map(({ depth }) => depth)) + 1 };
}
