import { describe, expect, it } from "vitest";
import { History, remembered } from "./history";
import { selectionStore } from "./selection";

function counter() {
  let time = 0;
  const history = new History(() => time);
  const values = [0];
  const value = () => values.at(-1);
  const set = (to: number, key?: string, after = 10_000) => {
    const from = value() as number;
    time += after;
    values.push(to);
    history.did({ undo: () => values.push(from), redo: () => values.push(to), ...(key && { key }) });
  };
  return { history, set, value };
}

describe("History", () => {
  it("takes changes back one after the other, and makes them again", () => {
    const { history, set, value } = counter();
    set(1);
    set(2);
    expect(history.undo()).toBe(true);
    expect(value()).toBe(1);
    expect(history.undo()).toBe(true);
    expect(history.undo()).toBe(false);
    expect(value()).toBe(0);
    expect([history.redo(), history.redo(), history.redo()]).toEqual([true, true, false]);
    expect(value()).toBe(2);
  });

  it("forgets a change that came to nothing", () => {
    const { history, set, value } = counter();
    set(1);
    const refused = { undo: () => set(-1), redo: () => set(-2) };
    history.did(refused);
    history.forget(refused);
    history.undo();
    expect(value()).toBe(0);
  });

  it("forgets what was taken back once something else is done", () => {
    const { history, set, value } = counter();
    set(1);
    history.undo();
    set(5);
    expect(history.redo()).toBe(false);
    history.undo();
    expect(value()).toBe(0);
  });

  it("takes the changes of one drag for one", () => {
    const { history, set, value } = counter();
    set(1, "length 3");
    set(2, "length 3", 20);
    set(3, "length 3", 20);
    set(9, "length 3");
    history.undo();
    expect(value()).toBe(3);
    history.undo();
    expect(value()).toBe(0);
    history.redo();
    expect(value()).toBe(3);
  });

  it("does not remember what an undo changes, even later", async () => {
    const { history, set, value } = counter();
    let answered = () => {};
    const answer = new Promise<void>((resolve) => {
      answered = resolve;
    });
    history.did({
      undo: async () => {
        await answer;
        set(7);
      },
      redo: () => {},
    });
    history.undo();
    answered();
    await answer;
    await Promise.resolve();
    expect(value()).toBe(7);
    expect(history.undo()).toBe(false);
  });
});

describe("remembered", () => {
  it("goes back to what was selected, and stays at the moment", () => {
    const store = selectionStore("history");
    const history = new History();
    const own = remembered(store, history);
    own.set({ request: 1 });
    own.set({ request: 2, page: 4 });
    own.set({ request: 2, page: 4, moment: 12 });
    own.set({});
    store.set({ moment: 30 }, "another widget");
    history.undo();
    expect(store.value).toEqual({ request: 2, page: 4, moment: 30 });
    history.undo();
    expect(store.value).toEqual({ request: 1, moment: 30 });
    history.redo();
    expect(store.value).toEqual({ request: 2, page: 4, moment: 30 });
  });
});
