// What is wrong by name or by type is an error of the type checker: `npm run check` reads this file, too.

import { expect, expectTypeOf, test } from "vitest";
import {
  COMMON,
  command,
  dict,
  extend,
  int,
  list,
  none,
  nullable,
  optional,
  protocol,
  type Requests,
  type Source,
  type Tensor,
  tensor,
  text,
} from ".";

const BASE = extend(COMMON, {
  traits: { now: int(), frames: list<{ moment: number }>() },
  commands: { seek: command({ position: int() }, none()) },
  tensors: { events: tensor("int32", [4, "events"]) },
});
const WIDGET = protocol("widget", 3, BASE, {
  traits: { kernel: text<"a" | "b">(), frames: list<{ moment: number; note: string }>() },
  commands: {
    edit: command({ action: text<"add">(), warp: optional(nullable(int())) }, dict<{ message: string }>()),
  },
  tensors: { "{kernel}.moments": tensor("float32", ["moments", 13]), plan: tensor(null, null) },
});
type Widget = typeof WIDGET;

function typesOnly(_check: (source: Source<Widget>) => void): void {}

test("a protocol holds the common declarations, its base's and its own", () => {
  expect(WIDGET.name).toBe("widget");
  expect(WIDGET.version).toBe(3);
  expect(Object.keys(WIDGET.traits)).toEqual([...Object.keys(COMMON.traits), "now", "frames", "kernel"]);
  expect(Object.keys(WIDGET.commands)).toEqual(["slices", "run_again", "keep_picture", "seek", "edit"]);
  expect(Object.keys(WIDGET.tensors)).toEqual(["events", "{kernel}.moments", "plan"]);
  expect(WIDGET.commands.edit.request.action).toEqual({ kind: "text", optional: false });
  expect(WIDGET.commands.edit.request.warp).toEqual({ kind: "int", optional: true });
});

test("traits have the types that were declared", () => {
  typesOnly((source) => {
    expectTypeOf(source.get("kernel")).toEqualTypeOf<"a" | "b">();
    expectTypeOf(source.get("now")).toEqualTypeOf<number>();
    expectTypeOf(source.get("frames")).toEqualTypeOf<{ moment: number; note: string }[]>();
    // @ts-expect-error: no such trait
    source.get("kernl");
    // @ts-expect-error: no such trait
    source.onChange("nowhere", () => {});
    // @ts-expect-error: another type
    source.set("now", "soon");
  });
});

test("commands take what was declared, and answer so", () => {
  expectTypeOf<Requests<Widget>["edit"]>().toExtend<{ action: "add"; warp?: number | null }>();
  typesOnly((source) => {
    expectTypeOf(source.call("edit", { action: "add", warp: null })).resolves.toEqualTypeOf<{
      message: string;
    }>();
    expectTypeOf(source.call("seek", { position: 1 })).resolves.toEqualTypeOf<null>();
    // @ts-expect-error: the position is needed
    source.call("seek", {});
    // @ts-expect-error: no such action
    source.call("edit", { action: "remove" });
    // @ts-expect-error: no such command
    source.call("sek", { position: 1 });
  });
});

test("tensors have their dtype, by name or by a pattern of names", () => {
  typesOnly((source) => {
    expectTypeOf(source.slice("events", 0, 1)).resolves.toEqualTypeOf<Tensor<"int32">>();
    expectTypeOf(source.slice("flashmla.moments", 0, 1)).resolves.toEqualTypeOf<Tensor<"float32">>();
    expectTypeOf(source.slice("plan", 0, 1)).resolves.toEqualTypeOf<Tensor>();
    // @ts-expect-error: no such tensor
    source.slice("flashmla.moment", 0, 1);
  });
});

test("a source of more serves where one of less is wanted, and not the other way", () => {
  typesOnly((source) => {
    expectTypeOf(source).toExtend<Source>();
    expectTypeOf(source).toExtend<Source<typeof BASE>>();
    expectTypeOf<Source>().not.toExtend<Source<typeof BASE>>();
  });
});
