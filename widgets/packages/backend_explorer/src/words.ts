// What a backend's row says, as data and short texts: pure functions of what Python answered.

import { format } from "@sglab/core";
import type { Choice, CostInfo, PlanInfo, Row } from "./protocol";

export type Standing = "runs" | "built" | "refused";

/** Runs: SGLang starts with it on this machine and it serves the pass; built: it would serve it elsewhere. */
export const NO_FIGURES = "no published figures of this machine here";

/** Above the backends of one standing. */
export function groupTitle(now: Standing, count: number, machine: string, version: string): string {
  const one = count === 1;
  const titles: Record<Standing, string> = {
    runs: `${one ? "runs" : "run"} on ${machine} under SGLang ${version}`,
    built: "would serve this pass elsewhere",
    refused: `${one ? "refuses" : "refuse"} this pass`,
  };
  return `${format.plural(count, "backend")} ${titles[now]}`;
}

export function standing(row: Row): Standing {
  if (!row.servedBy) return "refused";
  return row.refusals.length ? "built" : "runs";
}

export type Order = "standing" | "bytes" | "metadata";
export const ORDERS: Order[] = ["standing", "bytes", "metadata"];
const RANK: Record<Standing, number> = { runs: 0, built: 1, refused: 2 };

/** Groups in their order; in each, SGLang's choice first, or the smallest. */
export function ordered(rows: readonly Row[], order: Order): Row[] {
  const size = (row: Row) =>
    order === "bytes" ? (row.cost?.bytes ?? 0) : order === "metadata" ? (row.arrayBytes ?? 0) : 0;
  const at = new Map(rows.map((row, i) => [row.name, i]));
  return [...rows].sort(
    (a, b) =>
      RANK[standing(a)] - RANK[standing(b)] ||
      (order === "standing" ? Number(b.chosen) - Number(a.chosen) : size(a) - size(b)) ||
      (at.get(a.name) ?? 0) - (at.get(b.name) ?? 0),
  );
}

/** The reason that decides: the backend's own before the machine's before SGLang's. */
export function reasonOf(row: Row): string {
  for (const by of ["backend", "machine", "SGLang"] as const) {
    const found = row.refusals.find((each) => each.by === by);
    if (found) return found.text;
  }
  return "";
}

export function planText(plan: PlanInfo | undefined): string {
  if (!plan || plan.none !== undefined) return "–";
  if (!plan.splits) return plan.ctas === null ? "planned" : format.plural(plan.ctas, "CTA");
  const [least, most] = plan.splits;
  const splits = least === most ? format.plural(least, "split") : `${least}–${most} splits`;
  return plan.ctas === null ? splits : `${splits}, ${format.plural(plan.ctas, "CTA")}`;
}

/** The same in a cell: the splits alone. */
export function splitsText(plan: PlanInfo | undefined): string {
  return plan?.splits ? (planText(plan).split(",")[0] as string) : planText(plan);
}

/** 5.4e8 → "537 MFLOP". */
export function flops(value: number): string {
  const units = ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"];
  let scaled = value;
  let unit = 0;
  while (scaled >= 1000 && unit < units.length - 1) {
    scaled /= 1000;
    unit += 1;
  }
  return `${scaled >= 100 || unit === 0 ? scaled.toFixed(0) : scaled.toFixed(1)} ${units[unit]}`;
}

export interface Part {
  name: string;
  bytes: number;
  /** Index of its look. */
  look: number;
  about: string;
}

/** What crosses memory, in the order of the bar. */
export function partsOf(cost: CostInfo): Part[] {
  const parts: Part[] = [
    {
      name: "KV",
      bytes: cost.kv,
      look: 0,
      about: `${format.plural(cost.rows, "row")} of the pool, each once`,
    },
    {
      name: "other",
      bytes: cost.other,
      look: 4,
      about: "an index's keys and scores, or scores of every key",
    },
    {
      name: "copies",
      bytes: cost.copied,
      look: 1,
      about: "contiguous copies of KV rows, written and read again",
    },
    { name: "partials", bytes: cost.partial, look: 2, about: "partial results, written and read again" },
    { name: "Q and O", bytes: cost.qo, look: 5, about: "queries and outputs" },
    { name: "index", bytes: cost.index, look: 3, about: "the arrays that were built for the pass" },
  ];
  return parts.filter((part) => part.bytes > 0);
}

/** "fa3", or "prefill fa4, decode trtllm_mha". */
export function choiceText(choice: Choice): string {
  if (choice.refused !== undefined) return "does not start";
  return choice.prefill === choice.decode
    ? (choice.decode ?? "")
    : `prefill ${choice.prefill}, decode ${choice.decode}`;
}

/** What a screen reader says of a row. */
export function rowSentence(row: Row): string {
  const chosen = row.chosen ? ", SGLang's choice," : "";
  if (!row.servedBy) return `${row.name}${chosen} refuses: ${reasonOf(row)}`;
  const arrays = `${format.plural(row.arrays.length, "array")} of ${format.bytes(row.arrayBytes ?? 0)}`;
  const moved = row.cost ? `${format.bytes(row.cost.bytes)} through memory` : "what it reads is not counted";
  const reason = reasonOf(row);
  return `${row.name}${chosen} builds ${arrays}; ${moved}.${reason ? ` ${reason}` : ""}`;
}

/** The most bytes that any shown row moves: what the longest bar stands for. */
export function longest(rows: readonly Row[]): number {
  return Math.max(1, ...rows.map((row) => row.cost?.bytes ?? 0));
}
