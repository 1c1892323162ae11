// What is selected, in words: the request under the focused planner, and one of its work units.

import { format, h, definitions as list } from "@sglab/core";
import { nameOf, type Work } from "./data";
import type { Pane } from "./protocol";

export type Row = [term: string, text: string];

/** One work unit: also what the pointer's tooltip says. */
export function unitRows(pane: Pane, work: Work, i: number): Row[] {
  const at = (column: keyof Omit<Work, "size">) => (work[column] as ArrayLike<number>)[i] as number;
  const tokens = at("tokenEnd") - at("tokenStart");
  const rows: Row[] = [
    ["request", nameOf(work, at("request"))],
    ["split", `${at("split")} of 0 … ${splitsOf(work, at("request")) - 1}`],
    [
      "KV tokens",
      `[${format.count(at("tokenStart"))}, ${format.count(at("tokenEnd"))}): ${format.count(tokens)}`,
    ],
    ["head block", `${at("headBlock")}: ${pane.headBlockIs}`],
    ["CTA", pane.clusterSize > 1 ? `${at("cta")} of cluster ${at("cluster")}` : String(at("cta"))],
    ["SM", pane.ctasPerSm > 1 ? `${at("sm")}, slot ${at("slot")}` : String(at("sm"))],
    ["round", `${at("wave") + 1}: the ${ordinal(at("wave") + 1)} work unit there`], // as the marks count them
    ["modelled time", `${format.count(at("start"))} to ${format.plural(at("end"), "KV token")}`],
  ];
  return rows;
}

function ordinal(n: number): string {
  const endings: Record<number, string> = { 1: "st", 2: "nd", 3: "rd" };
  return `${n}${(Math.floor((n % 100) / 10) !== 1 && endings[n % 10]) || "th"}`;
}

function splitsOf(work: Work, request: number): number {
  const splits = new Set<number>();
  for (let i = 0; i < work.size; i++) if (work.request[i] === request) splits.add(work.split[i] as number);
  return splits.size;
}

/** A request as the focused planner sees it. */
export function requestRows(pane: Pane, work: Work, request: number, length: number): Row[] {
  const blocks = new Set<number>();
  const sms = new Set<number>();
  let first = Number.POSITIVE_INFINITY;
  let last = 0;
  for (let i = 0; i < work.size; i++) {
    if (work.request[i] !== request) continue;
    blocks.add(work.headBlock[i] as number);
    sms.add(work.sm[i] as number);
    first = Math.min(first, work.start[i] as number);
    last = Math.max(last, work.end[i] as number);
  }
  return [
    ["length", format.plural(length, "KV token")],
    ["splits", String(splitsOf(work, request))],
    ["head blocks", `${blocks.size}, each ${pane.headBlockIs}`],
    ["SMs", String(sms.size)],
    ["modelled time", `${format.count(first)} to ${format.plural(last, "KV token")}`],
  ];
}

export function definitions(title: string, rows: Row[]): HTMLElement {
  return h("div", { class: "skv-definitions" }, h("div", { class: "sg-heading" }, title), list(rows));
}

export function tooltipText(pane: Pane, work: Work, i: number): string {
  return unitRows(pane, work, i)
    .map(([term, text]) => `${term}  ${text}`)
    .join("\n");
}
