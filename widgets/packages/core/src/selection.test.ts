import { describe, expect, test } from "vitest";
import { momentsOf, requestsOf, sameSelection, selectionStore } from "./selection";

let scopes = 0;
const freshStore = () => selectionStore(`selection.test ${scopes++}`);

describe("the store", () => {
  test("is one per scope", () => {
    expect(selectionStore("one notebook")).toBe(selectionStore("one notebook"));
    expect(selectionStore("one notebook")).not.toBe(selectionStore("another"));
  });

  test("notifies listeners what is selected and by whom, and only when it changes", () => {
    const store = freshStore();
    const heard: unknown[] = [];
    const off = store.on((value, origin) => heard.push([value, origin]));
    store.set({ request: 1 }, "me");
    store.set({ request: 1 }, "another widget");
    store.set({ request: undefined });
    off();
    store.set({ request: 2 });
    expect(heard).toEqual([
      [{ request: 1 }, "me"],
      [{}, undefined],
    ]);
  });

  test("holds no undefined facets, and cannot be changed from outside", () => {
    const store = freshStore();
    store.set({ cta: 3, warp: undefined });
    expect(Object.keys(store.value)).toEqual(["cta"]);
    expect(Object.isFrozen(store.value)).toBe(true);
  });
});

describe("moments of a launch", () => {
  test("belong to that launch: others see everything but the moment", () => {
    const store = freshStore();
    const [mine, others] = [momentsOf("mine", store), momentsOf("others", store)];
    mine.set({ cta: 1, moment: 40 });
    expect(store.value).toEqual({ cta: 1, moment: 40, launch: "mine" });
    expect(mine.value).toEqual({ cta: 1, moment: 40 });
    expect(others.value).toEqual({ cta: 1 });
  });

  test("so do places in its shared and tensor memory, not those in global memory", () => {
    const store = freshStore();
    const [mine, others] = [momentsOf("mine", store), momentsOf("others", store)];
    for (const address of ["smem+0x400", "tmem[3,64]"]) {
      mine.set({ cta: 1, address });
      expect(store.value).toEqual({ cta: 1, address, launch: "mine" });
      expect(mine.value).toEqual({ cta: 1, address });
      expect(others.value).toEqual({ cta: 1 });
      expect(momentsOf("mine", store).value).toEqual({ cta: 1, address });
    }
    mine.set({ address: "0x7f00" });
    expect(others.value).toEqual({ address: "0x7f00" });
    mine.set({ address: "0x7f00", moment: 2 });
    expect(others.value).toEqual({ address: "0x7f00" });
    store.set({ address: "smem+0x400" }); // from Python, of no launch in particular
    expect(others.value).toEqual({ address: "smem+0x400" });
  });

  test("of no launch in particular are shared by all", () => {
    const store = freshStore();
    store.set({ moment: 7 });
    expect(momentsOf("any", store).value).toEqual({ moment: 7 });
  });

  test("are the same object as long as nothing changes", () => {
    const own = momentsOf("mine", freshStore());
    own.set({ moment: 1 });
    expect(own.value).toBe(own.value);
  });

  test("a widget without a launch sees the store itself", () => {
    const store = freshStore();
    expect(momentsOf("", store)).toBe(store);
  });
});

test("selections are the same when all facets are", () => {
  expect(sameSelection({ cta: 1 }, { cta: 1, warp: undefined })).toBe(true);
  expect(sameSelection({ cta: 1 }, { cta: 1, warp: 0 })).toBe(false);
});

test("a request keeps its name where it has another number", () => {
  const store = freshStore();
  const batch = requestsOf(() => ["b", "a"], store);
  const engine = requestsOf(() => ["a", "b", "c"], store);
  engine.set({ request: 0, token: 3, page: 2 });
  expect(batch.value).toEqual({ request: 1, token: 3, page: 2 });
  expect(store.value).toEqual({ request: 0, rid: "a", token: 3, page: 2 });
  engine.set({ request: 2, token: 3, page: 2 });
  expect(batch.value).toEqual({ page: 2 }); // it has no such request
  store.set({ request: 1 }); // by a widget whose requests have no names
  expect(batch.value).toEqual({ request: 1 });
  engine.set({ request: 2 });
  expect(requestsOf(() => [], store).value.request).toBe(2); // one without names has its numbers
  batch.set({ page: 4 });
  expect(store.value).toEqual({ page: 4 });
});
