import { Disposer, type Frame, type SelectionStore, Transport } from "@sglab/core";
import type { Selection } from "@sglab/protocol";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { followSession, type Steps } from "./following";
import type { MemorySource } from "./protocol";

let inSight: (isIntersecting: boolean) => void = () => {};
beforeEach(() => {
  vi.stubGlobal(
    "IntersectionObserver",
    class {
      constructor(heard: (changes: { isIntersecting: boolean }[]) => void) {
        inSight = (isIntersecting) => heard([{ isIntersecting }]);
      }
      observe() {}
    },
  );
});
afterEach(() => vi.unstubAllGlobals());

/** Five moments, at these instructions of the launch. */
const POSITIONS = Int32Array.of(3, 8, 20, 21, 40);
const STEPS: Steps = {
  moments: { length: 5, position: POSITIONS },
  granularities: [
    { id: "event", label: "event" },
    { id: "copy", label: "copy", stops: Int32Array.of(2, 4) },
  ],
  describe: (position) => `after ${position}`,
  eventsOfSelection: () => Int32Array.of(1, 5),
};

/** A widget with Python, or a saved page of these frames. */
function made(live: boolean, frames: { moment: number }[] = [{ moment: 0 }]) {
  const state = { frames, listeners: new Map<string, () => void>(), calls: [] as [string, object][] };
  const source = {
    live,
    connection: live ? "live" : "saved",
    get: (name: string) => (name === "frames" ? state.frames : undefined),
    onChange: (name: string, listener: () => void) => state.listeners.set(name, listener),
    read: () => [],
    async call(command: string, request: { moment?: number }) {
      state.calls.push([command, request]);
      if (command !== "go") return;
      state.frames = [{ moment: request.moment as number }]; // Python moves and publishes
      state.listeners.get("revision")?.();
    },
  };
  let selected: Selection = {};
  const heard: ((value: Selection, origin: unknown) => void)[] = [];
  const selection = {
    get value() {
      return selected;
    },
    set(value: Selection, origin: unknown) {
      selected = value;
      for (const each of heard) each(value, origin);
    },
    on: (listener: (typeof heard)[number]) => {
      heard.push(listener);
      return () => {};
    },
  };
  const frame = { notify: vi.fn(), setPlaceholder: vi.fn() };
  const transport = new Transport();
  const following = followSession({
    source: source as unknown as MemorySource,
    selection: selection as unknown as SelectionStore,
    disposer: new Disposer(),
    transport,
    frame: frame as unknown as Frame,
    load: async () => {},
    show: () => {},
  });
  following.steps(STEPS);
  /** Another page has moved the session. */
  const moved = (moment: number) => {
    state.frames = [{ moment }];
    state.listeners.get("revision")?.();
  };
  const stale = () => state.listeners.get("stale")?.();
  return { transport, following, selection, calls: state.calls, frame, moved, stale };
}
const settled = () => new Promise((done) => setTimeout(done, 1));

describe("with Python", () => {
  let page: ReturnType<typeof made>;
  beforeEach(() => {
    page = made(true);
  });
  const go = () =>
    page.calls.flatMap(([command, request]) => (command === "go" ? Object.values(request)[0] : []));

  test("out of sight it follows to the latest place once it is seen", () => {
    inSight(false);
    page.selection.set({ moment: 9 }, "another");
    page.selection.set({ moment: 21 }, "another");
    expect(page.calls).toEqual([]);
    inSight(true);
    expect(page.calls).toEqual([["follow", { position: 21, wanted: [] }]]);
  });

  test("out of sight only the newest counts of what Python did and what another widget has shown", () => {
    inSight(false);
    page.selection.set({ moment: 9 }, "another");
    page.stale();
    inSight(true);
    inSight(false);
    page.stale();
    page.selection.set({ moment: 21 }, "another");
    inSight(true);
    expect(page.calls).toEqual([
      ["catch_up", { wanted: [] }],
      ["follow", { position: 21, wanted: [] }],
    ]);
  });

  test("a step asks for the next moment, or for the next stop of its size", async () => {
    page.transport.step(1);
    await settled();
    expect(go()).toEqual([1]);
    expect(page.transport.position).toBe(1);
    page.transport.setGranularity("copy");
    page.transport.step(1);
    await settled();
    page.transport.step(1);
    await settled();
    page.transport.step(1); // there is none any more: to the end
    await settled();
    expect(go()).toEqual([1, 2, 4, 5]);
  });

  test("a step of the selection goes to its next event, and stays where there is none", async () => {
    page.transport.stepSelection(1);
    await settled();
    expect(page.transport.position).toBe(1);
    page.transport.stepSelection(1);
    await settled();
    expect(page.transport.position).toBe(5);
    page.transport.stepSelection(-1);
    await settled();
    expect(page.transport.position).toBe(1);
  });

  test("a move of another page that comes with the answer is the one that is shown", async () => {
    page.transport.step(1);
    page.moved(3);
    await settled();
    expect(page.transport.position).toBe(3);
    page.moved(2);
    await settled();
    expect(page.transport.position).toBe(2);
  });

  test("it shares how many instructions have been executed then", async () => {
    page.transport.goTo(3);
    await settled();
    expect(page.selection.value.moment).toBe(21);
    page.transport.goTo(0);
    await settled();
    expect(page.selection.value.moment).toBe(0);
  });

  test("an event of the launch is shown just after it happened", async () => {
    page.following.goToEvent(20);
    await settled();
    expect(go()).toEqual([3]);
    page.following.goToEvent(7); // between two moments: the one before
    await settled();
    expect(go()).toEqual([3, 1]);
  });

  test("Python is asked to follow another widget, not this one", async () => {
    page.selection.set({ moment: 21 }, "another widget");
    expect(page.calls.at(-1)).toEqual(["follow", { position: 21, wanted: [] }]);
    const before = page.calls.length;
    page.selection.set({ page: 3 }, "another widget"); // no moment
    page.selection.set({ moment: 3 }, page.frame);
    expect(page.calls).toHaveLength(before);
  });
});

describe("a saved page", () => {
  const frames = [{ moment: 0 }, { moment: 2 }, { moment: 4 }];

  test("steps through the moments that it holds, and says which", () => {
    const { transport, following } = made(false, frames);
    expect(transport.track.length).toBe(2);
    transport.goTo(2);
    expect(following.frame).toBe(2);
    expect(transport.track.describe(2)).toBe("after 4");
    expect(transport.track.time?.(2)).toBe("instruction 21, event 4 of 5");
  });

  test("goes to the last moment that is not after what another widget selects", async () => {
    const { transport, selection } = made(false, frames);
    selection.set({ moment: 21 }, "another widget"); // three moments have happened
    expect(transport.position).toBe(1);
    selection.set({ moment: 41 }, "another widget");
    expect(transport.position).toBe(2);
    await settled();
    expect(selection.value.moment).toBe(41); // followed, not announced
  });

  test("shares the moment when its reader steps", async () => {
    const { transport, selection } = made(false, frames);
    transport.goTo(1);
    await settled();
    expect(selection.value.moment).toBe(9);
  });

  test("asks for nothing", async () => {
    const { transport, calls } = made(false, frames);
    transport.step(1);
    await settled();
    expect(calls).toEqual([]);
  });
});
