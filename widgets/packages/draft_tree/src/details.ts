// The selected node: where it is, how likely, and what the target says after it.

import { definitions, format, h, tokenText } from "@sglab/core";
import type { Pass, Recorded } from "./data";
import type { Standing } from "./steps";
import { stateOf } from "./tree_view";
import { probability } from "./words";

const STATES = {
  future: "not drafted yet",
  open: "drafted, not judged yet",
  kept: "kept",
  refused: "refused: it is not what the target says",
};

export function nodeFacts(
  recorded: Recorded,
  pass: Pass,
  standing: Standing,
  node: number,
): [string, string][] {
  const one = pass.nodes[node];
  if (!one) return [];
  const state = stateOf(node, standing);
  if (state === "future") return [["state", STATES[state]]];
  const unreached = standing.ended && state === "open";
  const rows: [string, string][] = [
    ["token", `“${tokenText(one.token, recorded.texts)}”, id ${one.token}`],
    [
      "state",
      node === 0
        ? "the root: the request's last token"
        : unreached
          ? unreachedFor(one.parent, standing)
          : STATES[state],
    ],
    ["parent", one.parent < 0 ? "none" : `node ${one.parent}`],
    [
      "position",
      `${format.count(one.position)}: ${format.count(pass.prefix)} before the tree + depth ${one.depth}`,
    ],
    ["KV slot", `${one.slot}, page ${Math.floor(one.slot / recorded.run.pageSize)}`],
  ];
  if (!Number.isNaN(one.score)) rows.push(["path, drafter", probability(one.score)]);
  if (standing.verified && node > 0) rows.push(["token, target", probability(one.probability)]);
  if (standing.compacted && one.movedTo >= 0) rows.push(["moved to", `slot ${one.movedTo}`]);
  return rows;
}

function unreachedFor(parent: number, standing: Standing): string {
  if (stateOf(parent, standing) !== "kept") return "never compared: not below a kept node";
  return standing.walk.some(({ node, matches }) => node === parent && matches)
    ? "never compared: a sibling before it is kept"
    : "never compared: the pass accepts no draft";
}

export function nodeDetails(recorded: Recorded, pass: Pass, standing: Standing, node: number): HTMLElement[] {
  const one = pass.nodes[node];
  if (!one || node >= standing.built) return [h("p", { class: "sg-note" }, "This node is not drafted yet.")];
  const rows = nodeFacts(recorded, pass, standing, node);
  const parts = [h("div", { class: "sg-heading" }, `Node ${node}`), definitions(rows)];
  if (standing.verified) {
    const children = pass.nodes.flatMap(({ parent, token }, i) => (parent === node ? [{ i, token }] : []));
    parts.push(
      h("div", { class: "sg-heading" }, "The target after it"),
      h("p", { class: "sg-note" }, "Before temperature and penalties."),
      h(
        "div",
        { class: "sdt-likely" },
        ...one.likely.map(({ token, probability: p }) => {
          const drafted = children.find((child) => child.token === token);
          const note = [token === one.chosen ? "said" : "", drafted ? `node ${drafted.i}` : ""]
            .filter(Boolean)
            .join(", ");
          const bar = h("span", { class: "sdt-share" });
          bar.style.width = `${Math.max(1, p * 100)}%`;
          return h(
            "div",
            { class: "sdt-choice", "data-chosen": String(token === one.chosen) },
            h("code", {}, tokenText(token, recorded.texts)),
            h("span", { class: "sdt-box" }, bar),
            h("span", {}, probability(p)),
            h("span", { class: "sg-muted" }, note),
          );
        }),
      ),
    );
    const unlikely = saidBeside(recorded, pass, node);
    if (unlikely) parts.push(h("p", { class: "sg-note" }, unlikely));
  }
  return parts;
}

/** What was drawn though it is less likely than all that are listed. */
export function saidBeside(recorded: Recorded, pass: Pass, node: number): string | undefined {
  const one = pass.nodes[node];
  if (!one?.likely.length || one.likely.some(({ token }) => token === one.chosen)) return undefined;
  return `Said: “${tokenText(one.chosen, recorded.texts)}”, less likely than these ${one.likely.length}.`;
}

/** What the pass has come to so far. */
export function passFacts(recorded: Recorded, pass: Pass, standing: Standing): HTMLElement {
  const rows: [string, string][] = [
    [
      "drafts",
      pass.offered ? `${pass.nodes.length - 1} of ${pass.offered} candidates` : String(pass.nodes.length - 1),
    ],
  ];
  if (standing.ended)
    rows.push(
      [
        "kept",
        `${format.plural(pass.accepted, "draft")} and the bonus token “${tokenText(pass.bonus, recorded.texts)}”`,
      ],
      ["gained", gained(pass)],
    );
  return h("div", {}, h("div", { class: "sg-heading" }, `Pass ${pass.number}`), definitions(rows));
}

function gained(pass: Pass): string {
  const tokens = format.plural(pass.gained, "token");
  const dropped = pass.accepted + 1 - pass.gained;
  return dropped > 0
    ? `${tokens}: the request ended before the last ${dropped === 1 ? "one" : dropped}`
    : tokens;
}
