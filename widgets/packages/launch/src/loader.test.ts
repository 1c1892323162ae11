import { beforeEach, expect, test, vi } from "vitest";
import type { Launch } from "./data";
import { LaunchLoader } from "./loader";
import { smallLaunch } from "./testing/small_launch";

const reading = vi.hoisted(() => ({ launch: vi.fn(), times: vi.fn() }));
vi.mock("./data", () => ({ readLaunch: reading.launch }));
vi.mock("./timed", () => ({
  readTimes: reading.times,
  timedLaunch: (launch: object) => ({ ...launch, timed: true }),
}));

const settled = () => new Promise((done) => setTimeout(done));
beforeEach(() => {
  reading.launch.mockReset().mockImplementation(async () => smallLaunch());
  reading.times.mockReset().mockResolvedValue({});
});

function made({ live = true, selected = {}, timed = false } = {}) {
  const state = { revision: 1 };
  const heard: Record<string, (...args: unknown[]) => void> = {};
  const call = vi.fn(async () => null);
  const selection = {
    value: selected as object,
    on: (listener: (...args: unknown[]) => void) => {
      heard.selection = listener;
      return () => {};
    },
  };
  const source = {
    live,
    call,
    get: () => state.revision,
    onChange: (_: string, listener: () => void) => {
      heard.revision = listener;
      return () => {};
    },
  };
  const frame = { setPlaceholder: vi.fn(), notify: vi.fn(), clearNotice: vi.fn() };
  const axis = { timed, load: vi.fn() };
  const sight = { seen: true, when: (_: string, work: () => void) => void (sight.seen && work()) };
  const load = vi.fn((_launch: Launch, _moment: number | undefined) => {});
  const context = { source, selection, disposer: { add: () => {} } };
  const loader = new LaunchLoader(context as never, frame as never, axis as never, sight.when, {
    load,
    moment: () => 12,
  });
  return { loader, load, frame, axis, call, selection, sight, heard, state };
}

test("the launch is loaded, and again when Python publishes another", async () => {
  const { load, heard, axis } = made();
  await settled();
  expect(load.mock.calls).toHaveLength(1);
  expect(load.mock.calls[0]?.[1]).toBeUndefined();
  heard.revision?.();
  await settled();
  expect(load.mock.calls).toHaveLength(2);
  expect(axis.load).toHaveBeenCalledTimes(2);
});

test("over another axis the moment stays", async () => {
  const { loader, load, axis } = made();
  await settled();
  axis.timed = true;
  await loader.switchAxis();
  expect(load).toHaveBeenLastCalledWith(expect.objectContaining({ timed: true }), 12);
});

test("times that come after a newer launch are not shown", async () => {
  let come = (_: object) => {};
  reading.times.mockImplementationOnce(() => new Promise((done) => (come = done)));
  const { load, state } = made({ timed: true });
  await settled();
  state.revision = 2;
  come({});
  await settled();
  expect(load).not.toHaveBeenCalled();
});

test("a CTA that is selected elsewhere brings its cluster; one that is shown, or that the grid lacks, does not", async () => {
  const { call, selection, heard } = made();
  await settled();
  for (const [cta, asked] of [
    [4, 0],
    [99, 0],
    [6, 1],
  ] as const) {
    selection.value = { cta };
    heard.selection?.(selection.value, "elsewhere");
    await settled();
    expect(call, `CTA ${cta}`).toHaveBeenCalledTimes(asked);
  }
  expect(call).toHaveBeenCalledWith("show_cta", { cta: 6 });
});

test("a widget that is not in sight asks for no cluster", async () => {
  const { call, selection, sight, heard } = made();
  await settled();
  sight.seen = false;
  selection.value = { cta: 6 };
  heard.selection?.(selection.value, "elsewhere");
  await settled();
  expect(call).not.toHaveBeenCalled();
});

test("its own selections are not followed, nor any in a saved page", async () => {
  const own = made();
  await settled();
  own.selection.value = { cta: 6 };
  own.heard.selection?.(own.selection.value, own.frame);
  const saved = made({ live: false, selected: { cta: 6 } });
  await settled();
  expect(own.call).not.toHaveBeenCalled();
  expect(saved.call).not.toHaveBeenCalled();
});

test("what cannot be read or done is said", async () => {
  reading.launch.mockRejectedValueOnce(new Error("no such tensor"));
  const { frame, loader, call } = made();
  await settled();
  expect(frame.setPlaceholder).toHaveBeenLastCalledWith({
    kind: "error",
    text: "no such tensor",
    remedy: "Run the cell again.",
  });
  call.mockRejectedValueOnce(new Error("the kernel is gone"));
  await loader.ask("show_cta", { cta: 0 });
  expect(frame.clearNotice).toHaveBeenCalled();
  expect(frame.notify).toHaveBeenCalledWith("error", "the kernel is gone");
});
