// The arrays by which kernels walk the tree, a row per node.

import { cutText, h, tokenText } from "@sglab/core";
import type { Pass } from "./data";
import type { Standing } from "./steps";

const HEADS: readonly [label: string, title: string][] = [
  ["node", "Its number in the tree"],
  ["token", "What was drafted"],
  ["position", "Prefix + depth: what rotary embeddings use"],
  ["retrieve_index", "Its row among all requests' nodes: row of the batch · nodes + node"],
  ["next_token", "Its first child; −1: none"],
  ["next_sibling", "The next child of its parent; −1: none"],
  ["slot", "Where its KV row is written"],
  ["says", "What the target chooses after it"],
];

export class ArraysView {
  readonly element = h("div", { class: "sdt-arrays" });
  #key = "";

  constructor(private press: (node: number) => void) {
    this.element.addEventListener("click", (event) => {
      const row = (event.target as Element).closest<HTMLElement>("[data-node]");
      if (row) this.press(Number(row.dataset.node));
    });
  }

  draw(pass: Pass, standing: Standing, selected: number | undefined, texts: Record<string, string>): void {
    const { built, verified, now } = standing;
    const visited = now?.phase === "accept" ? [now.node, now.child] : [];
    const key = JSON.stringify([pass.number, built, verified, visited, selected]);
    if (key === this.#key) return;
    this.#key = key;
    const rows = pass.nodes.map((node, i) => {
      const values =
        i < built
          ? [
              String(i),
              cutText(tokenText(node.token, texts), 8),
              String(node.position),
              String(pass.row * pass.nodes.length + i),
              signed(node.nextToken),
              signed(node.nextSibling),
              String(node.slot),
              verified ? cutText(tokenText(node.chosen, texts), 8) : "",
            ]
          : [String(i), ...HEADS.slice(1).map(() => "")];
      const attributes = {
        "data-node": i,
        "data-selected": String(i === selected),
        "data-now": String(visited.includes(i)),
      };
      return h("tr", attributes, ...values.map((value) => h("td", {}, value)));
    });
    this.element.replaceChildren(
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ...HEADS.map(([label, title]) => h("th", { scope: "col", title }, ...breakable(label))),
          ),
        ),
        h("tbody", {}, ...rows),
      ),
    );
  }

  /** Scrolls to a node's row. */
  reveal(node: number): void {
    const box = this.element;
    const row = box.querySelector<HTMLElement>(`[data-node="${node}"]`);
    const head = box.querySelector("thead")?.clientHeight ?? 0;
    if (!row) return;
    if (
      row.offsetTop - head < box.scrollTop ||
      row.offsetTop + row.offsetHeight > box.scrollTop + box.clientHeight
    )
      box.scrollTop = row.offsetTop - (box.clientHeight + head) / 2;
  }
}

/** May go on in a second line after an underscore. */
function breakable(label: string): (string | Node)[] {
  const [first, second] = label.split("_");
  return second ? [`${first}_`, h("wbr"), second] : [label];
}

function signed(value: number): string {
  return value < 0 ? "−1" : String(value);
}
