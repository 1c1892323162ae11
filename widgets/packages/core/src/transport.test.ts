import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { type Arrival, countUpTo, type Motion, Transport } from "./transport";

const TRACK = {
  length: 10,
  granularities: [
    { id: "step", label: "step" },
    { id: "page", label: "page", stops: [0, 4, 8] },
    { id: "run", label: "run", stops: [0, 10] },
  ],
  describe: (at: number) => `at ${at}`,
};

function loaded(change: Partial<Parameters<Transport["load"]>[0]> = {}): Transport {
  const transport = new Transport();
  transport.load({ ...TRACK, ...change });
  return transport;
}

describe("looking elsewhere", () => {
  test("stays between the beginning and the end", () => {
    const transport = loaded();
    transport.goTo(99);
    expect(transport.position).toBe(10);
    transport.goTo(-1);
    expect(transport.position).toBe(0);
    transport.goTo(3.4);
    expect(transport.position).toBe(3);
  });

  test("steps to the stops of the granularity, from wherever it is", () => {
    const transport = loaded();
    transport.setGranularity("page");
    const seen = [1, 1, 1, -1, -1].map((direction) => {
      transport.step(direction as 1 | -1);
      return transport.position;
    });
    expect(seen).toEqual([4, 8, 10, 8, 4]);
    transport.goTo(6);
    expect(transport.previous).toBe(4);
  });

  test("[ and ] take the next coarser granularity, the coarsest its own", () => {
    const transport = loaded();
    transport.stepCoarse(1);
    expect(transport.position).toBe(4);
    transport.setGranularity("run");
    transport.stepCoarse(1);
    expect(transport.position).toBe(10);
  });

  test("walks the events of the selection", () => {
    const transport = loaded({ eventsOfSelection: () => [2, 5] });
    const seen = [1, 1, 1, -1].map((direction) => {
      transport.stepSelection(direction as 1 | -1);
      return transport.position;
    });
    expect(seen).toEqual([2, 5, 5, 2]);
  });

  test("keys for the events of the selection are there where there can be some", () => {
    const named = (track: Transport) => track.keys().map(({ keys }) => keys[0]);
    const transport = new Transport();
    transport.load({ length: 3, granularities: [{ id: "step", label: "step" }], describe: String });
    expect(named(transport)).not.toContain("Shift+ArrowRight");
    transport.load({ ...transport.track, eventsOfSelection: () => [1] });
    expect(named(transport)).toContain("Shift+ArrowRight");
  });

  test("another run keeps position and granularity where it can", () => {
    const transport = loaded();
    transport.setGranularity("page");
    transport.goTo(9);
    transport.load({ ...TRACK, length: 6 });
    expect([transport.position, transport.granularity.id]).toEqual([6, "page"]);
    transport.load({ ...TRACK, granularities: [{ id: "other", label: "other" }] });
    expect(transport.granularity.id).toBe("other");
  });
});

describe("playing", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test("steps at its speed, and pauses at the end", () => {
    const transport = loaded();
    transport.setSpeed(5);
    transport.play();
    vi.advanceTimersByTime(1000);
    expect(transport.position).toBe(5);
    vi.advanceTimersByTime(5000);
    expect([transport.position, transport.playing]).toEqual([10, false]);
  });

  test("begins again from the end", () => {
    const transport = loaded();
    transport.goTo(10);
    transport.play();
    expect([transport.position, transport.playing]).toEqual([0, true]);
  });
});

describe("moving what the picture shows", () => {
  /** A track whose motions end when the test says so. */
  function live() {
    const asked: { motion: Motion; arrive: (arrival: Arrival) => void; fail: (error: Error) => void }[] = [];
    const move = (motion: Motion) =>
      new Promise<Arrival>((arrive, fail) => void asked.push({ motion, arrive, fail }));
    return { asked, transport: loaded({ move }) };
  }
  const settled = () => new Promise((done) => setTimeout(done));

  test("requests one motion at a time; equal steps add up meanwhile", async () => {
    const { asked, transport } = live();
    transport.step(1);
    transport.step(1);
    transport.step(1);
    expect(asked.map(({ motion }) => motion)).toEqual([
      { kind: "step", direction: 1, granularity: "step", count: 1 },
    ]);
    expect(transport.moving).toBe(true);
    asked[0]?.arrive({ position: 1 });
    await settled();
    expect(asked[1]?.motion).toEqual({ kind: "step", direction: 1, granularity: "step", count: 2 });
    asked[1]?.arrive({ position: 3 });
    await settled();
    expect([transport.position, transport.moving]).toEqual([3, false]);
  });

  test("a later wish replaces another kind", async () => {
    const { asked, transport } = live();
    transport.step(1);
    transport.step(1);
    transport.goTo(7);
    asked[0]?.arrive({ position: 1 });
    await settled();
    expect(asked[1]?.motion).toEqual({ kind: "to", position: 7 });
  });

  test("a failure leaves the position, forgets what waited and is reported", async () => {
    const { asked, transport } = live();
    const failures: unknown[] = [];
    transport.failed.on((error) => failures.push(error));
    transport.step(1);
    transport.step(1);
    const error = new Error("gone");
    asked[0]?.fail(error);
    await settled();
    expect(failures).toEqual([error]);
    expect([transport.position, transport.moving, asked.length]).toEqual([0, false, 1]);
  });

  test("an arrival may bring the end", async () => {
    const { asked, transport } = live();
    transport.goTo(10);
    asked[0]?.arrive({ position: 10, length: 24, open: false });
    await settled();
    expect([transport.track.length, transport.track.open]).toEqual([24, false]);
  });
});

test("countUpTo counts the entries of an ascending list that are at most a value", () => {
  const sorted = [1, 3, 3, 7];
  for (let value = 0; value < 9; value++)
    expect(countUpTo(sorted, value)).toBe(sorted.filter((entry) => entry <= value).length);
});
