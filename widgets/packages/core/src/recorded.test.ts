import type { Source } from "@sglab/protocol";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Disposer } from "./emitter";
import type { Frame } from "./frame";
import { followRun } from "./recorded";

class Observer {
  static made: Observer[] = [];
  disconnected = false;
  constructor(readonly heard: () => void) {
    Observer.made.push(this);
  }
  observe() {}
  disconnect() {
    this.disconnected = true;
  }
}

beforeEach(() => {
  Observer.made = [];
  vi.stubGlobal("ResizeObserver", Observer);
  vi.stubGlobal("IntersectionObserver", Observer);
});
afterEach(() => vi.unstubAllGlobals());

function made(read: () => Promise<string>, live = true) {
  let revision = 1;
  let changed = () => {};
  const source = {
    live,
    get: (name: string) => (name === "revision" ? revision : { title: `run ${revision}` }),
    onChange: (_: string, listener: () => void) => {
      changed = listener;
      return () => {};
    },
  };
  const frame = { view: {}, setHeader: vi.fn(), setPlaceholder: vi.fn() };
  const draw = { schedule: vi.fn(), now: vi.fn(), cancel: vi.fn() };
  const show = vi.fn();
  const disposer = new Disposer();
  const parts = { source: source as unknown as Source, frame: frame as unknown as Frame, disposer };
  followRun(parts, read, show, draw);
  const next = () => {
    revision += 1;
    changed();
  };
  return { frame, draw, show, disposer, next };
}
const settled = () => new Promise((done) => setTimeout(done));

test("what was recorded is read, shown and drawn, and again at every revision", async () => {
  let count = 0;
  const { frame, draw, show, next } = made(async () => `read ${++count}`);
  expect(frame.setPlaceholder).toHaveBeenLastCalledWith(expect.objectContaining({ kind: "loading" }));
  await settled();
  expect(show.mock.calls).toEqual([["read 1"]]);
  expect(frame.setPlaceholder).toHaveBeenLastCalledWith(null);
  next();
  await settled();
  expect(show).toHaveBeenLastCalledWith("read 2");
  expect(draw.now).toHaveBeenCalledTimes(2);
});

test("an answer that a newer revision has overtaken is not shown", async () => {
  const answers: ((text: string) => void)[] = [];
  const { show, next } = made(() => new Promise((done) => answers.push(done)));
  next();
  answers[1]?.("new");
  await settled();
  answers[0]?.("old");
  await settled();
  expect(show.mock.calls).toEqual([["new"]]);
});

test("what cannot be read is said, with what to do", async () => {
  const { frame, show } = made(async () => {
    throw new Error("the recording is gone");
  });
  await settled();
  expect(show).not.toHaveBeenCalled();
  expect(frame.setPlaceholder).toHaveBeenLastCalledWith({
    kind: "error",
    text: "the recording is gone",
    remedy: "Run the cell again.",
  });
});

test("a file is saved again, since it has no cell to run", async () => {
  const { frame } = made(async () => {
    throw new Error("What was saved is damaged.");
  }, false);
  await settled();
  const { remedy } = frame.setPlaceholder.mock.lastCall?.[0] ?? {};
  expect(remedy).toBe("Save the widget again.");
});

test("another size or place draws again, until the widget is gone", async () => {
  const { draw, disposer } = made(async () => "");
  await settled();
  for (const observer of Observer.made) observer.heard();
  expect(draw.schedule).toHaveBeenCalledTimes(2);
  disposer.dispose();
  expect(Observer.made.map(({ disconnected }) => disconnected)).toEqual([true, true]);
  expect(draw.cancel).toHaveBeenCalled();
});
