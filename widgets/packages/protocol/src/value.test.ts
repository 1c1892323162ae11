import { expect, expectTypeOf, test } from "vitest";
import {
  bool,
  type Carried,
  dict,
  type Fields,
  float,
  int,
  list,
  none,
  nullable,
  optional,
  text,
} from "./value";

test("each says Python's annotation, and whether it may be left out", () => {
  const kinds = [int(), float(), bool(), text(), dict(), list(), none()].map(({ kind }) => kind);
  expect(kinds).toEqual(["int", "float", "bool", "text", "dict", "list", "none"]);
  expect(nullable(int())).toEqual({ kind: "int", optional: false });
  expect(optional(nullable(int()))).toEqual({ kind: "int", optional: true });
});

test("an object has what is needed, and may have the rest", () => {
  const values = { warp: nullable(int()), note: optional(text<"a" | "b">()), on: bool() };
  type Made = Fields<typeof values>;
  expectTypeOf<Made["warp"]>().toEqualTypeOf<number | null>();
  expectTypeOf<Made["note"]>().toEqualTypeOf<"a" | "b" | undefined>();
  const least: Made = { warp: null, on: true };
  expect(Object.keys(least)).toEqual(["warp", "on"]);
  // @ts-expect-error: what is needed is missing
  const wrong: Made = { warp: 1 };
  expect(wrong).toEqual({ warp: 1 });
  expectTypeOf<Carried<ReturnType<typeof list<string>>>>().toEqualTypeOf<string[]>();
});
