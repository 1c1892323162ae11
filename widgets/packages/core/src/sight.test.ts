import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Disposer } from "./emitter";
import { whenInSight } from "./sight";

let tell: (isIntersecting: boolean) => void = () => {};
const disconnect = vi.fn();

beforeEach(() => {
  disconnect.mockClear();
  vi.stubGlobal(
    "IntersectionObserver",
    class {
      disconnect = disconnect;
      constructor(heard: (changes: { isIntersecting: boolean }[]) => void) {
        tell = (isIntersecting) => heard([{ isIntersecting }]);
      }
      observe() {}
    },
  );
});
afterEach(() => vi.unstubAllGlobals());

function made() {
  const disposer = new Disposer();
  const done: string[] = [];
  const when = whenInSight({} as Element, disposer);
  return { disposer, done, work: (name: string, what: string) => when(name, () => done.push(what)) };
}

test("work is done at once in sight, and before the browser has said", () => {
  const { done, work } = made();
  work("look", "first");
  tell(true);
  work("look", "second");
  expect(done).toEqual(["first", "second"]);
});

test("out of sight the latest of each name waits", () => {
  const { done, work } = made();
  tell(false);
  work("look", "first");
  work("follow", "second");
  work("look", "third");
  expect(done).toEqual([]);
  tell(true);
  expect(done).toEqual(["second", "third"]);
  tell(false);
  tell(true);
  expect(done).toEqual(["second", "third"]);
});

test("a disposed view does nothing more", () => {
  const { disposer, done, work } = made();
  tell(false);
  work("look", "first");
  disposer.dispose();
  tell(true);
  expect(done).toEqual([]);
  expect(disconnect).toHaveBeenCalledOnce();
});
