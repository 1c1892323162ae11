// The planner's exact arrays, under their real names. An array's values are read when it is opened.

import { format, h } from "@sglab/core";
import type { Numbers } from "@sglab/protocol";
import type { ArrayInfo, Pane, SplitKVSource } from "./protocol";

const FIRST = 480;
/** Arrays that name the request of each of their entries: of a work unit, a block, or a place in sorted order. */
const KEYS = ["request_indices", "batch_indices", "batch", "varlen_batch_idx"];
/** Arrays beside one of those, entry for entry. */
const KEYED = new Set([
  ...["num_splits_dynamic", "num_m_blocks"], // FlashAttention-3, sorted
  ...["qo_tile_indices", "kv_tile_indices", "block_valid_mask", "head_indices"], // FlashInfer
  ...["qo_indptr", "kv_indptr", "qo_len", "kv_len"], // FlashInfer on SM90: of each work unit
  ...["m_block", "split", "cta"], // CUTLASS
]);
/** One entry per request, or a prefix sum with one more. */
const OF_REQUESTS = new Set([
  ...["local_split_kv", "num_splits", "num_kv_splits", "kv_len_per_split"],
  ...["o_indptr", "merge_indptr"],
]);
const FLAGS = new Set(["bool"]);

export interface ArrayList {
  root: HTMLElement;
  /** Lists the arrays of another plan; opened ones stay open where the new plan has them. */
  show(pane: Pane, batch: number): void;
  /** The planner refuses the batch: there are no arrays. */
  refused(pane: Pane): void;
  highlight(request: number | undefined): void;
}

interface Opened {
  info: ArrayInfo;
  body: HTMLElement;
  limit: number;
  values?: Numbers;
  /** The request of each entry, where the plan says it in an array. */
  requests?: Numbers;
}

export function arrayList(source: SplitKVSource, failed: (error: unknown) => void): ArrayList {
  const root = h("section", { class: "skv-arrays", "aria-label": "Plan arrays" });
  const opened = new Map<string, Opened>();
  let pane: Pane | undefined;
  let batch = 0;
  let request: number | undefined;

  const read = async (entry: Opened) => {
    try {
      const owner = pane as Pane;
      const values = async ({ name }: ArrayInfo) =>
        (await source.slice(`${owner.name}.${name}`, 0, 2 ** 31)).data;
      const key = keyOf(entry.info, owner.arrays);
      const [own, requests] = await Promise.all([values(entry.info), key && values(key)]);
      if (owner !== pane) return;
      entry.values = own;
      entry.requests = requests;
      write(entry);
    } catch (error) {
      failed(error);
    }
  };

  const write = (entry: Opened) => {
    const { info, values, body, limit } = entry;
    if (!values) return;
    const marked = markedEntries(info, entry.requests, batch, request, usedOf(pane));
    body.replaceChildren(...valueNodes(info, values, Math.min(limit, values.length), marked));
    if (values.length > limit) {
      const more = h("button", { type: "button", class: "sg-button" }, `all ${format.count(values.length)}`);
      more.addEventListener("click", () => {
        entry.limit = values.length;
        write(entry);
      });
      body.append(" … ", more);
    }
  };

  return {
    root,
    show(next, requests) {
      const open = new Set(
        [...opened.keys()].filter((name) => next.arrays.some((info) => info.name === name)),
      );
      if (!pane && next.arrays[0]) open.add(next.arrays[0].name);
      pane = next;
      batch = requests;
      opened.clear();
      const scalars = Object.entries(next.scalars).map(([name, value]) =>
        h(
          "span",
          { class: "skv-scalar" },
          h("code", {}, name),
          ` ${typeof value === "number" ? format.count(value) : value}`,
        ),
      );
      const items = next.arrays.map((info) => {
        const body = h("div", { class: "skv-values" });
        const item = h(
          "details",
          { open: open.has(info.name) },
          h(
            "summary",
            {},
            h("code", {}, info.name),
            h("span", {}, ` ${info.dtype} [${info.shape.join(", ")}]`),
          ),
          body,
        );
        const entry: Opened = { info, body, limit: FIRST };
        item.addEventListener("toggle", () => {
          if (!item.open) opened.delete(info.name);
          else if (!opened.has(info.name)) {
            opened.set(info.name, entry);
            void read(entry);
          }
        });
        if (item.open) opened.set(info.name, entry);
        return item;
      });
      root.replaceChildren(
        h("div", { class: "sg-heading" }, `Plan of ${next.title}`),
        h("p", { class: "skv-why" }, next.why),
        h("p", { class: "skv-scalars" }, ...scalars),
        h("div", { class: "skv-list" }, ...items),
      );
      for (const entry of opened.values()) void read(entry);
    },
    refused({ title, error }) {
      pane = undefined;
      opened.clear();
      root.replaceChildren(h("p", { class: "skv-why" }, `${title}: ${error ?? ""}`));
    },
    highlight(next) {
      if (next === request) return;
      request = next;
      for (const entry of opened.values()) write(entry);
    },
  };
}

/** The array of a plan that says whose the entries of another, or of itself, are. */
export function keyOf(info: ArrayInfo, arrays: ArrayInfo[]): ArrayInfo | undefined {
  if (KEYS.includes(info.name)) return info;
  if (!KEYED.has(info.name)) return undefined;
  return arrays.find(({ name, shape }) => KEYS.includes(name) && shape[0] === info.shape[0]);
}

/** Entries before the padding that a plan for a CUDA graph ends with. */
function usedOf(pane: Pane | undefined): number {
  const used = pane?.scalars.new_batch_size;
  return typeof used === "number" ? used : Number.POSITIVE_INFINITY;
}

/** Which entries belong to the selected request; a length alone says nothing, a plan_info may have any. */
export function markedEntries(
  info: ArrayInfo,
  requests: Numbers | undefined,
  batch: number,
  request: number | undefined,
  used = Number.POSITIVE_INFINITY,
): (index: number) => boolean {
  if (request === undefined) return () => false;
  if (requests) return (index) => index < used && requests[index] === request;
  if (!OF_REQUESTS.has(info.name)) return () => false;
  const sum = info.shape[0] === batch + 1;
  return (index) => index === request || (sum && index === request + 1);
}

/** Text, with a <mark> around each run of marked entries; rows of a matrix on lines of their own. */
function valueNodes(
  info: ArrayInfo,
  values: Numbers,
  count: number,
  marked: (index: number) => boolean,
): (Node | string)[] {
  const width = info.shape.length > 1 ? (info.shape.at(-1) as number) : 0;
  const show = (value: number) => (FLAGS.has(info.dtype) ? (value ? "T" : "F") : String(value));
  const nodes: (Node | string)[] = [];
  let text = "";
  let inMark = false;
  const flush = () => {
    if (inMark) nodes.push(h("mark", {}, text.trimEnd()), " ");
    else if (text) nodes.push(text);
    text = "";
  };
  for (let i = 0; i < count; i++) {
    if (marked(i) !== inMark) {
      flush();
      inMark = !inMark;
    }
    text += show(values[i] as number) + (width && i % width === width - 1 ? "\n" : " ");
  }
  flush();
  return nodes;
}
