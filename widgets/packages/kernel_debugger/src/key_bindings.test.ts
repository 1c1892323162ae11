import { expect, test, vi } from "vitest";
import { keyBindings } from "./key_bindings";

function made(live: boolean) {
  const driver = { go: vi.fn(), halt: vi.fn() };
  const actions = {
    driver: driver as never,
    toCursor: vi.fn(),
    toggle: vi.fn(),
    watch: vi.fn(),
    nextWarp: vi.fn(),
    fold: vi.fn(),
    search: vi.fn(),
  };
  const bindings = keyBindings(live, actions);
  const press = (key: string) => bindings.find(({ keys }) => keys.includes(key))?.run?.();
  return { driver, actions, bindings, press };
}

test("keys run, step back, stop", () => {
  const { driver, actions, press } = made(true);
  for (const key of ["r", "R", "f", "x", "t", "T", "b", "w"]) press(key);
  expect(driver.go.mock.calls).toEqual([["run"], ["run_back"], ["force"]]);
  expect(driver.halt).toHaveBeenCalledOnce();
  expect(actions.toCursor.mock.calls).toEqual([["to"], ["back_to"]]);
  expect(actions.toggle).toHaveBeenCalledOnce();
  expect(actions.watch).toHaveBeenCalledOnce();
});

test("a saved page has the keys that look, not those that run", () => {
  const { actions, bindings, press } = made(false);
  expect(bindings.flatMap(({ keys }) => keys).sort()).toEqual(["/", "ArrowDown", "ArrowUp", "g", "z"]);
  press("ArrowDown");
  press("ArrowUp");
  expect(actions.nextWarp.mock.calls).toEqual([[1], [-1]]);
});

test("no key does two things, and each says what it does", () => {
  const { bindings } = made(true);
  const keys = bindings.flatMap((each) => each.keys);
  expect(new Set(keys).size).toBe(keys.length);
  expect(bindings.every(({ label }) => label.length > 0)).toBe(true);
});
