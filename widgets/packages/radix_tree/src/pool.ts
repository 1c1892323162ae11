// Around the tree: the pool over all operations, and the leaves in the order in which they would go now.

import { format, h, sharedPaint, sizeCanvas, type Theme } from "@sglab/core";
import { HELD } from "@sglab/engine/held";
import { link } from "@sglab/engine/parts";
import { poolTop } from "@sglab/engine/pool_top";
import type { Op } from "./protocol";
import type { Tree, TreeNode } from "./states";
import { nothingToEvict } from "./words";

const HEIGHT = 64;
const BESIDE = 10; // px between the labels and the chart
const NAMED = 8;
const FEW = 3; // in a narrow widget, whose tree needs the room
const NARROW = 620; // px

/** Unlocked leaves, least recently used first; a node follows when all below it have left the device. */
export function nextToGo(tree: Tree): TreeNode[] {
  const open = childrenOnDevice(tree);
  const queue = [...tree.values()].filter(
    ({ id, lock, parent, device }) => device && parent >= 0 && !lock && !open.get(id),
  );
  const order: TreeNode[] = [];
  while (queue.length) {
    queue.sort((a, b) => b.at - a.at);
    const leaf = queue.pop() as TreeNode;
    order.push(leaf);
    const left = (open.get(leaf.parent) ?? 0) - 1;
    open.set(leaf.parent, left);
    const parent = tree.get(leaf.parent);
    if (parent && !left && parent.parent >= 0 && !parent.lock) queue.push(parent);
  }
  return order;
}

/** Node -> how many of its children are on the device; what the host alone has keeps nothing there. */
export function childrenOnDevice(tree: Tree): Map<number, number> {
  const open = new Map<number, number>();
  for (const { parent, device } of tree.values()) if (device) open.set(parent, (open.get(parent) ?? 0) + 1);
  return open;
}

export interface Pool {
  canvas: HTMLCanvasElement;
  /** What would go next. */
  order: HTMLElement;
  show(ops: readonly Op[], index: number, tree: Tree, poolSize: number, width: number, theme: Theme): void;
  opAt(x: number): number | undefined;
}

export function makePool(pick: (node: number) => void): Pool {
  const canvas = h("canvas", { class: "srt-pool", role: "img", "data-picture": "" });
  const order = h("div", { class: "srt-order" });
  let left = 0;
  let scale = 1;
  let count = 0;
  return {
    canvas,
    order,
    show(ops, index, tree, poolSize, width, theme) {
      count = ops.length;
      const most = ops.reduce((least, { pool }) => Math.max(least, poolSize - pool[0]), 0);
      const top = poolTop(most, poolSize);
      const [free, evictable, locked] = ops[index]?.pool ?? [0, 0, 0];
      const labels = [
        "the pool",
        `${format.count(evictable + locked)} in the tree`,
        `of ${format.plural(poolSize, "slot")}`,
        top < poolSize ? `chart: up to ${format.count(top)}` : "",
      ];
      const context = sizeCanvas(canvas, width - 4, HEIGHT);
      context.textBaseline = "middle";
      context.font = `11px ${theme.uiFont}`;
      const wide = [...labels, `${format.count(poolSize)} in the tree`]; // the chart stays where it is
      left = Math.ceil(Math.max(...wide.map((label) => context.measureText(label).width))) + BESIDE;
      scale = Math.max(0.01, (width - left - 6) / Math.max(1, count));
      labels.forEach((label, line) => {
        context.fillStyle = line === 1 ? theme.text : theme.muted;
        context.fillText(label, 2, 9 + 15 * line);
      });
      canvas.setAttribute(
        "aria-label",
        `The pool: ${free} slots free, ${evictable} evictable, ${locked} locked in the tree, of ${poolSize}, drawn up to ${top}`,
      );
      const shade = theme.dark ? "dark" : "light";
      ops.forEach((op, i) => {
        const [open, loose, held] = op.pool;
        const outside = poolSize - open - loose - held;
        context.globalAlpha = i > index ? 0.3 : 1;
        let y = HEIGHT - 1;
        for (const [slots, fill] of [
          [outside, HELD.private[shade]],
          [held, HELD.protected[shade]],
          [loose, sharedPaint().empty(theme.text)],
        ] as const) {
          const tall = (slots / top) * (HEIGHT - 2);
          y -= tall;
          context.fillStyle = fill;
          context.fillRect(left + i * scale, y, Math.max(1, scale), tall);
        }
      });
      context.globalAlpha = 1;
      context.strokeStyle = theme.border;
      context.strokeRect(left - 0.5, 0.5, count * scale + 1, HEIGHT - 1);
      context.fillStyle = theme.focus;
      context.fillRect(left + (index + 1) * scale - 1, 0, 1.5, HEIGHT);
      const next = nextToGo(tree);
      const nothing =
        tree.size > 1 ? `Nothing could be evicted now: ${nothingToEvict(locked)}.` : "The tree is empty.";
      const said = next.length ? "If room is needed now, these go first:" : nothing;
      const named = width < NARROW ? FEW : NAMED;
      const links = next
        .slice(0, named)
        .map((node) =>
          link(
            `${node.id} (${format.plural(node.tokens, "token")}, used ${node.at})`,
            `Select node ${node.id}`,
            () => pick(node.id),
          ),
        );
      const more = next.length > named ? `… ${next.length - named} more` : "";
      order.replaceChildren(said, ...links, more);
    },
    opAt(x) {
      const at = Math.floor((x - left) / scale);
      return at >= 0 && at < count ? at : undefined;
    },
  };
}
