import { expect, test } from "vitest";
import { COMMON, protocol } from "./common";
import { command } from "./declare";
import { int, none, text } from "./value";

test("a widget has the common traits and commands, and its own beside them", () => {
  const own = { traits: { now: int() }, commands: { seek: command({ to: int() }, none()) }, tensors: {} };
  const made = protocol("stepper", 4, COMMON, own);
  expect([made.name, made.version]).toEqual(["stepper", 4]);
  expect(Object.keys(made.traits)).toEqual([...Object.keys(COMMON.traits), "now"]);
  expect(Object.keys(made.commands)).toEqual([...Object.keys(COMMON.commands), "seek"]);
});

test("a widget may say more exactly what a common trait is; the common one stays as it was", () => {
  const made = protocol("exact", 1, COMMON, {
    traits: { scope: int() },
    commands: {},
    tensors: {},
  });
  expect(made.traits.scope.kind).toBe("int");
  expect(COMMON.traits.scope).toEqual(text());
});
