import { expect, test } from "vitest";
import { elementAtAddress, elementsOf, onlyElement, runsIn } from "./element";
import type { ElementSpan } from "./protocol";
import { layoutOfRaw, type RawEdit, saidText } from "./raw_panel";

const SPANS: ElementSpan[] = [
  {
    start: 0x400,
    end: 0x600,
    phases: [
      [0, "f16"],
      [5, "f32"],
    ],
  },
  { start: 0x600, end: 0x800, phases: [[0, "f32"]] },
  { start: 0x820, end: 0x840, phases: [[0, ""]] },
];
const raw = (
  moment: number,
  start: number,
  end: number,
  reading: RawEdit["reading"] = "accessed",
): RawEdit => ({
  ...{ name: "", start, bytes: end - start, pitch: 128, reading, swizzle: "none" },
  runs: runsIn(SPANS, moment, start, end),
});

test("an array of several types has each where its accesses are", () => {
  const runs = runsIn(SPANS, 0, 0x400, 0x900);
  expect(runs).toEqual([
    { start: 0x400, end: 0x600, element: "f16" },
    { start: 0x600, end: 0x800, element: "f32" },
    { start: 0x820, end: 0x840, element: "" },
  ]);
  expect([0x400, 0x5f0, 0x600, 0x810, 0x820].map((at) => elementAtAddress(runs, at))).toEqual([
    "f16",
    "f16",
    "f32",
    "",
    "",
  ]);
  expect(onlyElement(runs)).toBeUndefined();
  expect(elementsOf(runs)).toEqual(["f16", "f32", ""]);
});

test("a union holds halves until floats are stored over them", () => {
  expect([0, 5, 6].map((moment) => onlyElement(runsIn(SPANS, moment, 0x400, 0x600)))).toEqual([
    "f16",
    "f16",
    "f32",
  ]);
  expect(runsIn(SPANS, 6, 0x400, 0x800)).toEqual([{ start: 0x400, end: 0x800, element: "f32" }]);
});

test("the array is read as its one type; by address where there are several; as bytes where there is none", () => {
  expect(layoutOfRaw(raw(0, 0x400, 0x600))).toMatchObject({
    element: "f16",
    elementBits: 16,
    across: "column",
  });
  const mixed = layoutOfRaw(raw(0, 0x400, 0x900));
  expect([mixed.elementBits, mixed.across]).toEqual([8, "byte"]);
  expect([0x400, 0x600, 0x820, 0x8f0].map((at) => mixed.elementOf?.(at))).toEqual(["f16", "f32", "", ""]);
  expect(layoutOfRaw(raw(0, 0x820, 0x840)).elementOf?.(0x820)).toBe("");
  expect(layoutOfRaw(raw(0, 0x400, 0x900, "s16"))).toMatchObject({ element: "s16", elementBits: 16 });
  expect(layoutOfRaw(raw(0, 0x400, 0x600, "bytes")).elementOf?.(0x400)).toBe("");
});

test("an array that is structs from end to end is read member by member", () => {
  const runs = [{ start: 0x400, end: 0x800, element: "s32||bf16|s8" }];
  const struct = layoutOfRaw({ ...raw(0, 0x400, 0x800), runs });
  expect([struct.across, struct.elementOf?.(0x400)]).toEqual(["byte", "s32||bf16|s8"]);
  expect(layoutOfRaw({ ...raw(0, 0x400, 0x800, "bytes"), runs }).elementOf?.(0x400)).toBe("");
});

test("it says where the types come from, and that none is known", () => {
  expect(saidText(raw(0, 0x400, 0x900).runs, "accessed")).toMatch(
    /: f16, f32; in hexadecimal where none says it\.$/,
  );
  expect(saidText(raw(0, 0x820, 0x840).runs, "accessed")).toMatch(/^No instruction .* hexadecimal/);
  const struct = (element: string, at: number) => ({ element, start: at, end: at + 16 });
  expect(saidText([struct("s32|f32|f32|s32", 0), struct("f32|s32|f32|f32", 16)], "accessed")).toMatch(
    /: f32\+s32\.$/,
  );
  expect(saidText([], "s16")).toBe("Read as s16, as you chose.");
});
