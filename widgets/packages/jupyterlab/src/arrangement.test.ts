import { expect, test } from "vitest";
import { arrangement } from "./arrangement";
import type { Thing } from "./question";

const thing = (number: number, kind: Thing["kind"], widgets: string[]): Thing => ({
  number,
  kind,
  names: [`${kind}${number}`],
  title: "",
  detail: "",
  widgets,
});
const batch = thing(1, "batch", ["PageTable", "SplitKV", "OnlineSoftmax"]);
const session = thing(2, "session", ["KernelDebugger", "WarpRoles"]);
const recording = thing(3, "recording", ["WarpRoles"]);
const placed = (things: Thing[]) =>
  arrangement(things).map(({ thing, widget, mode, beside }) => [thing.number, widget, mode, beside]);

test("page table left above plan and timeline, the debugger right", () => {
  expect(placed([batch, session])).toEqual([
    [1, "PageTable", "tab-after", -1],
    [2, "KernelDebugger", "split-right", 0],
    [1, "SplitKV", "split-bottom", 0],
    [2, "WarpRoles", "tab-after", 2],
  ]);
});

test("without a batch, the notebook is above the timeline", () => {
  expect(placed([session])).toEqual([
    [2, "KernelDebugger", "split-right", -1],
    [2, "WarpRoles", "split-bottom", -1],
  ]);
});

test("a recording has a timeline alone, and no launch gives way to it", () => {
  expect(placed([recording])).toEqual([[3, "WarpRoles", "split-bottom", -1]]);
  expect(placed([session, recording]).map(([number]) => number)).toEqual([2, 2]);
});

test("of several, the newest are shown", () => {
  expect(placed([session, { ...session, number: 9 }]).map(([number]) => number)).toEqual([9, 9]);
});

test("nothing gives nothing", () => {
  expect(placed([])).toEqual([]);
});
