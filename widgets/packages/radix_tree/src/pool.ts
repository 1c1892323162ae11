// Under the tree: the pool over all operations, and the leaves in the order in which they would go now.

import { format, h, sharedPaint, sizeCanvas, type Theme } from "@sglab/core";
import { HELD } from "@sglab/engine/held";
import { link } from "@sglab/engine/parts";
import type { Op } from "./protocol";
import type { Tree, TreeNode } from "./states";

const HEIGHT = 64;
const LABELS = 96;
const NAMED = 8;

/** Unlocked leaves, least recently used first; a node follows when all below it have gone. */
export function nextToGo(tree: Tree): TreeNode[] {
  const open = new Map<number, number>();
  for (const { parent } of tree.values()) open.set(parent, (open.get(parent) ?? 0) + 1);
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

export interface Pool {
  root: HTMLElement;
  canvas: HTMLCanvasElement;
  show(ops: readonly Op[], index: number, tree: Tree, poolSize: number, width: number, theme: Theme): void;
  opAt(x: number): number | undefined;
}

export function makePool(pick: (node: number) => void): Pool {
  const canvas = h("canvas", { class: "srt-pool", role: "img", "data-picture": "" });
  const order = h("div", { class: "srt-order" });
  const root = h("div", { class: "srt-below" }, canvas, order);
  let scale = 1;
  let count = 0;
  return {
    root,
    canvas,
    show(ops, index, tree, poolSize, width, theme) {
      count = ops.length;
      scale = Math.max(0.01, (width - LABELS - 6) / Math.max(1, count));
      const context = sizeCanvas(canvas, width - 4, HEIGHT);
      context.textBaseline = "middle";
      context.font = `11px ${theme.uiFont}`;
      context.fillStyle = theme.muted;
      context.fillText("the pool", 2, 10);
      context.fillStyle = theme.text;
      const [free, evictable, locked] = ops[index]?.pool ?? [0, 0, 0];
      context.fillText(`${format.count(evictable + locked)} in the tree`, 2, 26);
      context.fillStyle = theme.muted;
      context.fillText(`of ${format.count(poolSize)} slots`, 2, 42);
      canvas.setAttribute(
        "aria-label",
        `The pool: ${free} slots free, ${evictable} evictable, ${locked} locked in the tree, of ${poolSize}`,
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
          const tall = (slots / poolSize) * (HEIGHT - 2);
          y -= tall;
          context.fillStyle = fill;
          context.fillRect(LABELS + i * scale, y, Math.max(1, scale), tall);
        }
      });
      context.globalAlpha = 1;
      context.strokeStyle = theme.border;
      context.strokeRect(LABELS - 0.5, 0.5, count * scale + 1, HEIGHT - 1);
      context.fillStyle = theme.focus;
      context.fillRect(LABELS + (index + 1) * scale - 1, 0, 1.5, HEIGHT);
      const next = nextToGo(tree);
      const nothing =
        tree.size > 1 ? "Nothing could be evicted now: every node is locked." : "The tree is empty.";
      const said = next.length ? "If room is needed now, these go first:" : nothing;
      const links = next
        .slice(0, NAMED)
        .map((node) =>
          link(`${node.id} (${node.tokens} tokens, used ${node.at})`, `Select node ${node.id}`, () =>
            pick(node.id),
          ),
        );
      const more = next.length > NAMED ? `… ${next.length - NAMED} more` : "";
      order.replaceChildren(said, ...links, more);
    },
    opAt(x) {
      const at = Math.floor((x - LABELS) / scale);
      return at >= 0 && at < count ? at : undefined;
    },
  };
}
