// The pane beside the tree: an operation with its numbers, and a node with what happened to it.

import { format } from "@sglab/core";
import { definitions, link, note, requestLink, table, title } from "@sglab/engine/parts";
import { childrenOnDevice } from "./pool";
import type { Op } from "./protocol";
import type { Tree, TreeStates } from "./states";
import { nameOf, runs, safeText, sentence } from "./words";

const LISTED = 30;
const { count, plural } = format;

export interface Told {
  states: TreeStates;
  index: number;
  tree: Tree;
  requests: readonly string[];
  pageSize: number;
  poolSize: number;
  /** Of the engine, that have run. */
  steps: number;
  dark: boolean;
  pick: (node: number) => void;
  pickRequest: (request: number) => void;
  goTo: (op: number) => void;
}

export function opDetails(told: Told): HTMLElement[] {
  const { states, index, tree, requests, pageSize, poolSize, steps, dark, pick } = told;
  const op = states.ops[index];
  if (!op) return [];
  const out: HTMLElement[] = [
    title(`Operation ${index}: ${op.kind}`),
    note(sentence(op, requests, pageSize)),
  ];
  const rows: [string, string | HTMLElement][] = [];
  if (op.step < steps) rows.push(["before step", count(op.step)]);
  else if (steps) rows.push(["after step", count(steps - 1)]);
  if (op.rid >= 0) {
    const swatch = requestLink(op.rid, nameOf(requests, op.rid), dark, () => told.pickRequest(op.rid));
    rows.push(["request", swatch]);
  }
  if (op.kind === "match" || op.kind === "insert") {
    rows.push(["tokens of the key", count(op.tokens ?? 0)]);
    rows.push(["in whole pages", count(op.aligned ?? 0)]);
    rows.push(["known to the tree", count(op.found ?? 0)]);
  }
  const [free, evictable, locked] = op.pool;
  rows.push(
    ["free", slots(free, pageSize)],
    ["evictable", slots(evictable, pageSize)],
    ["locked", slots(locked, pageSize)],
  );
  rows.push(
    ["outside the tree", slots(poolSize - free - evictable - locked, pageSize)],
    ["clock", count(op.clock)],
  );
  out.push(definitions(rows));
  if (op.evicted?.length)
    out.push(
      title("Evicted, in this order"),
      table(
        ["node", "tokens", "last used", "why"],
        op.evicted
          .slice(0, LISTED)
          .map(([node, tokens, at, why]) => [String(node), count(tokens), count(at), why]),
        "Evicted nodes",
      ),
      note(safe(op, tree)),
    );
  if (op.path?.length)
    out.push(
      title(op.kind === "split" ? "The two parts" : "The path"),
      table(
        ["node", "tokens", "text"],
        op.path.slice(0, LISTED).map((node) => {
          const known = tree.get(node);
          return [
            link(String(node), `Select node ${node}`, () => pick(node)),
            count(known?.tokens ?? 0),
            quoted(known?.text ?? ""),
          ];
        }),
        "Path",
      ),
    );
  return out;
}

/** What was not evicted, though it is a leaf: locked ones, and those used later. */
function safe(op: Op, tree: Tree): string {
  const inner = childrenOnDevice(tree);
  const leaves = [...tree.values()].filter(
    ({ id, parent, device }) => device && parent >= 0 && !inner.has(id),
  );
  const locked = leaves.filter(({ lock }) => lock > 0).length;
  const later = leaves.length - locked;
  const last = op.evicted?.at(-1)?.[2] ?? 0;
  return safeText(locked, later, last);
}

/** Of a node, or of a request and its nodes. */
export function selectedDetails(
  told: Told,
  selected: number | undefined,
  request: number | undefined,
  own: readonly number[],
): HTMLElement[] {
  if (selected !== undefined) return nodeDetails(told, selected);
  if (request !== undefined) return requestDetails(told, request, own);
  return [note("Press a node, or ↓, to see what it holds and what happened to it.")];
}

function requestDetails(told: Told, request: number, own: readonly number[]): HTMLElement[] {
  const { states, tree, requests, pick } = told;
  const name = nameOf(requests, request);
  const held = own.map((id) => tree.get(id)).filter((node) => node !== undefined);
  const tokens = held.reduce((sum, node) => sum + node.tokens, 0);
  const nodes = table(
    ["node", "tokens", "locks"],
    held.map((node) => [
      link(String(node.id), `Select node ${node.id}`, () => pick(node.id)),
      count(node.tokens),
      count(node.lock),
    ]),
    `Nodes of ${name}`,
  );
  const has = held.length
    ? [note(`In the tree: ${plural(tokens, "token")} in ${plural(held.length, "node")}.`), nodes]
    : [note("The tree holds nothing of it at this moment.")];
  return [title(name), ...has, ...happened(told, states.ofRequest(request), name)];
}

/** The operations around the one that is shown, which is marked. */
function happened(told: Told, events: readonly number[], whose: string): HTMLElement[] {
  const { states, index, requests, pageSize } = told;
  const past = events.filter((at) => at <= index).length;
  const from = Math.max(0, Math.min(events.length - LISTED, past - LISTED / 2));
  const rows = events.slice(from, from + LISTED).map((at) => {
    const go = link(`${at} ${states.ops[at]?.kind}`, `Go to operation ${at}`, () => told.goTo(at));
    if (at === index) go.setAttribute("aria-current", "step");
    return [go, sentence(states.ops[at] as Op, requests, pageSize)];
  });
  const all = events.length <= LISTED;
  const heading = all ? "What happened to it" : `${LISTED} of ${events.length} operations, around this one`;
  return [title(heading), table(["operation", "what"], rows, `Operations on ${whose}`)];
}

function nodeDetails(told: Told, selected: number): HTMLElement[] {
  const { states, index, tree, requests, pageSize, dark } = told;
  const node = tree.get(selected);
  const list = happened(told, states.of(selected), `node ${selected}`);
  if (!node) return [title(`Node ${selected}`), note("It is not in the tree at this moment."), ...list];
  const own = states.holders(index);
  const below = descendants(tree, selected);
  const holders = [selected, ...below].flatMap((each) => own.get(each) ?? []);
  const clock = states.ops[index]?.clock ?? 0;
  const where = runs(node.pages) || "none";
  const rows: [string, string | HTMLElement][] = [
    ["tokens", count(node.tokens)],
    [`in ${pageSize === 1 ? "slot" : "page"}${/^\d+$/.test(where) ? "" : "s"}`, where],
    ["locks", count(node.lock)],
    ["last used", `at ${count(node.at)}, ${plural(clock - node.at, "access", "accesses")} ago`],
    ["where", node.device ? (node.host ? "device and host" : "device") : "host"],
  ];
  if (node.space) rows.push(["namespace", node.space]);
  const text = Object.assign(document.createElement("div"), {
    className: "sge-text",
    textContent: node.text,
  });
  const out = [title(node.parent < 0 ? `The root: node ${selected}` : `Node ${selected}`), definitions(rows)];
  if (node.text) out.push(text);
  if (holders.length && node.parent >= 0) {
    const names = [...new Set(holders)].map((request) =>
      requestLink(request, nameOf(requests, request), dark, () => told.pickRequest(request)),
    );
    const row = Object.assign(document.createElement("div"), { className: "sge-row" });
    row.append(...names);
    out.push(title("Locked by"), row);
  }
  return [...out, ...list];
}

function descendants(tree: Tree, node: number): number[] {
  const below = [...tree.values()].filter(({ parent }) => parent === node).map(({ id }) => id);
  return below.flatMap((each) => [each, ...descendants(tree, each)]);
}

function slots(amount: number, pageSize: number): string {
  return pageSize === 1
    ? plural(amount, "slot")
    : `${plural(amount, "slot")}, ${plural(amount / pageSize, "page")}`;
}

function quoted(text: string): string {
  return text.length > 40 ? `"${text.slice(0, 40)}…"` : JSON.stringify(text);
}
