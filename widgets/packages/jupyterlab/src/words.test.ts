import { expect, test } from "vitest";
import type { Thing } from "./question";
import { choices, nameOf, newestToDebug, spelled } from "./words";

const batch: Thing = {
  number: 1,
  kind: "batch",
  names: ["batch"],
  title: "3 requests",
  detail: "",
  widgets: ["PageTable", "SplitKV"],
};
const session: Thing = {
  number: 2,
  kind: "session",
  names: [],
  title: "mla",
  detail: "",
  widgets: ["KernelDebugger"],
};

test("a widget is spelled as words", () => {
  expect(["PageTable", "SplitKV", "KernelDebugger", "Barriers", "NanSpread"].map(spelled)).toEqual([
    "Page table",
    "Split KV",
    "Kernel debugger",
    "Barriers",
    "NaN spread",
  ]);
});

test("a thing without a name is called by its kind", () => {
  expect(nameOf(batch)).toBe("batch");
  expect(nameOf(session)).toBe("session without a name");
});

test("choices begin with the newest thing and keep its widgets' order", () => {
  expect(choices([batch, session]).map(({ label }) => label)).toEqual([
    "Kernel debugger on session without a name (mla)",
    "Page table on batch (3 requests)",
    "Split KV on batch (3 requests)",
  ]);
});

test("what is debugged is the newest launch or session", () => {
  expect(newestToDebug([session, { ...session, number: 3 }, batch])?.number).toBe(3);
  expect(newestToDebug([batch])).toBeUndefined();
});
