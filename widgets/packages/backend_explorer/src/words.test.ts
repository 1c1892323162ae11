import { expect, test } from "vitest";
import type { CostInfo, PlanInfo, Row } from "./protocol";
import {
  choiceText,
  flops,
  groupTitle,
  longest,
  ordered,
  partsOf,
  planText,
  reasonOf,
  rowSentence,
  splitsText,
  standing,
} from "./words";

const COST: CostInfo = {
  rows: 10,
  kv: 100,
  other: 0,
  copied: 0,
  qo: 20,
  index: 5,
  partial: 7,
  bytes: 132,
  flops: 1,
  wasted: 0,
  intensity: 1,
  bound: null,
  notes: [],
};
const row = (name: string, more: Partial<Row> = {}): Row => ({
  name,
  chosen: false,
  pageSize: 1,
  servedBy: name,
  refusals: [],
  named: [],
  kernels: "",
  machine: "",
  source: "",
  here: "",
  differs: "",
  notes: [],
  arrays: [],
  numbers: {},
  scratch: [],
  closed: {},
  arrayBytes: 0,
  cost: COST,
  ...more,
});
const refused = row("c", {
  servedBy: "",
  refusals: [
    { by: "SGLang", text: "no name", argument: "" },
    { by: "backend", text: "no window", argument: "layer" },
  ],
});
const elsewhere = row("d", { refusals: [{ by: "machine", text: "needs SM100", argument: "" }] });
const chosen = row("b", { chosen: true, cost: { ...COST, bytes: 400 } });

test("what refuses, what serves elsewhere and what runs are told apart", () => {
  expect([refused, elsewhere, chosen].map(standing)).toEqual(["refused", "built", "runs"]);
  expect([refused, elsewhere, chosen].map(reasonOf)).toEqual(["no window", "needs SM100", ""]);
});

test("groups stay together in every order", () => {
  const rows = [refused, elsewhere, row("a"), chosen];
  const names = (order: "standing" | "bytes" | "metadata") => ordered(rows, order).map(({ name }) => name);
  expect(names("standing")).toEqual(["b", "a", "d", "c"]);
  expect(names("bytes")).toEqual(["a", "b", "d", "c"]);
  expect(names("metadata")).toEqual(["a", "b", "d", "c"]);
  expect(longest(rows)).toBe(400);
});

test("parts of the bar add up to the bytes", () => {
  const parts = partsOf(COST);
  expect(parts.map(({ name }) => name)).toEqual(["KV", "partials", "Q and O", "index"]);
  expect(parts.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(COST.bytes);
});

test("plans and FLOPs in few words", () => {
  const plan = { splits: [2, 8], ctas: 132 } as PlanInfo;
  expect(planText(plan)).toBe("2–8 splits, 132 CTAs");
  expect(planText({ ...plan, splits: [1, 1], ctas: 1 })).toBe("1 split, 1 CTA");
  expect(planText({ none: "no plan" } as PlanInfo)).toBe("–");
  expect(planText(undefined)).toBe("–");
  expect([plan, { none: "no plan" } as PlanInfo].map(splitsText)).toEqual(["2–8 splits", "–"]);
  expect([0, 999, 1000, 5.37e8, 9.13e9, 2e18].map(flops)).toEqual([
    "0 FLOP",
    "999 FLOP",
    "1.0 kFLOP",
    "537 MFLOP",
    "9.1 GFLOP",
    "2000 PFLOP",
  ]);
});

test("a row is said in a sentence", () => {
  expect(rowSentence(chosen)).toBe("b, SGLang's choice, builds 0 arrays of 0 B; 400 B through memory.");
  expect(rowSentence(refused)).toBe("c refuses: no window");
  expect(rowSentence(elsewhere)).toMatch(/needs SM100$/);
});

test("a choice of two backends names both", () => {
  expect(choiceText({ version: "1", prefill: "fa3", decode: "fa3" })).toBe("fa3");
  expect(choiceText({ version: "1", prefill: "fa4", decode: "triton" })).toBe("prefill fa4, decode triton");
  expect(choiceText({ version: "1", refused: "no" })).toBe("does not start");
});

test("what stands above one backend and above several", () => {
  expect(groupTitle("runs", 1, "A100", "0.5.9")).toBe("1 backend runs on A100 under SGLang 0.5.9");
  expect(groupTitle("refused", 1, "A100", "0.5.9")).toBe("1 backend refuses this pass");
  expect(groupTitle("refused", 6, "A100", "0.5.9")).toBe("6 backends refuse this pass");
});
