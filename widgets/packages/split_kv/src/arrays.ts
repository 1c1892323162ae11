// The planner's exact arrays, under their real names. An array's values are read when it is opened.

import { format, h } from "@sglab/core";
import type { Numbers } from "@sglab/protocol";
import type { ArrayInfo, Pane, SplitKVSource } from "./protocol";

const FIRST = 480;
const BY_REQUEST = ["request_indices", "batch_indices", "batch", "varlen_batch_idx"];
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
      const tensor = await source.slice(`${owner.name}.${entry.info.name}`, 0, 2 ** 31);
      if (owner !== pane) return;
      entry.values = tensor.data;
      write(entry);
    } catch (error) {
      failed(error);
    }
  };

  const write = (entry: Opened) => {
    const { info, values, body, limit } = entry;
    if (!values) return;
    const marked = markedEntries(info, values, opened, batch, request);
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

/** Which entries belong to the selected request, as far as the array's name and length say. */
function markedEntries(
  info: ArrayInfo,
  values: Numbers,
  opened: Map<string, Opened>,
  batch: number,
  request: number | undefined,
): (index: number) => boolean {
  if (request === undefined) return () => false;
  if (BY_REQUEST.includes(info.name)) return (index) => values[index] === request;
  if (info.shape.length !== 1) return () => false;
  if (values.length === batch) return (index) => index === request;
  if (values.length === batch + 1) return (index) => index === request || index === request + 1;
  const keys = [...opened.values()].find(
    (other) => BY_REQUEST.includes(other.info.name) && other.values?.length === values.length,
  );
  return (index) => keys?.values?.[index] === request;
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
