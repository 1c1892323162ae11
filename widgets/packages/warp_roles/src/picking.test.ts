import type { SelectionStore, Timeline, Transport } from "@sglab/core";
import { barrierKey } from "@sglab/launch/names";
import { smallLaunch } from "@sglab/launch/testing/small_launch";
import type { Selection } from "@sglab/protocol";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { Picking } from "./picking";
import { makeShown } from "./shown";

// Of the small launch: what each of the cluster's events is.
const [INIT, COPY, WAIT, MMA, ARRIVE, LAST_WAIT] = [0, 1, 3, 4, 6, 7];
const [FULL, EMPTY] = [0, 1];

const shown = makeShown(smallLaunch());
const { launch } = shown;
const ME = "this widget";

let selected: Selection;
let said: unknown[];
let transport: { position: number; goTo: (step: number) => void };
let timeline: { reveal: unknown; glide: ReturnType<typeof vi.fn>; revealRow: ReturnType<typeof vi.fn> };
let picking: Picking;

beforeEach(() => {
  selected = {};
  said = [];
  transport = {
    position: 0,
    goTo(step) {
      this.position = step;
    },
  };
  timeline = { reveal: vi.fn(), glide: vi.fn(), revealRow: vi.fn() };
  const store = {
    get value() {
      return selected;
    },
    set(value: Selection, origin: unknown) {
      selected = value;
      said.push(origin);
    },
  };
  picking = new Picking(
    () => shown,
    transport as unknown as Transport,
    store as unknown as SelectionStore,
    () => timeline as unknown as Timeline,
    ME,
    () => {},
  );
});

describe("an event that is picked", () => {
  test("selects its warp, its barrier and the moment after it", () => {
    picking.event(WAIT);
    expect(picking.picked).toMatchObject({ event: WAIT });
    expect(transport.position).toBe(WAIT + 1);
    expect(selected).toEqual({
      cta: 4,
      warp: 1,
      barrier: barrierKey(launch, FULL),
      moment: launch.clock.momentAt(WAIT + 1),
    });
    expect(said).toEqual([ME]);
  });

  test("that issues a copy has the barrier which the copy signals, and the page that it reads", () => {
    picking.event(COPY);
    expect(selected).toMatchObject({ warp: 0, barrier: barrierKey(launch, FULL), page: 7, request: 1 });
  });

  test("without a barrier selects none, not the one before", () => {
    picking.event(WAIT);
    picking.event(MMA);
    expect(selected.barrier).toBeUndefined();
  });

  test("must be there", () => {
    picking.event(-1);
    expect(picking.picked).toBeUndefined();
    expect(said).toEqual([]);
  });

  test("is found by its number in the launch", () => {
    picking.numbered(launch.events.at[WAIT] as number);
    expect(picking.picked).toMatchObject({ event: WAIT });
    picking.numbered(1); // another cluster's
    expect(picking.picked).toMatchObject({ event: WAIT });
  });
});

test("an operation is shown where it is carried out, with the page of the instruction that issued it", () => {
  picking.operation(0);
  expect(picking.picked).toMatchObject({ operation: 0 });
  expect(transport.position).toBe(launch.places.stepAt(launch.operations.done[0] as number));
  expect(transport.position).toBe(WAIT); // before the wait for it
  expect(selected).toMatchObject({ cta: 4, warp: 0, barrier: barrierKey(launch, FULL), page: 7 });
});

describe("a row that is picked", () => {
  test("selects its warp, or of a track the CTA", () => {
    const [, second] = shown.timeline.rowOfWarp;
    picking.row(second as number);
    expect(selected).toMatchObject({ cta: 4, warp: 1 });
    const track = shown.timeline.subjects.findIndex((each) => !("warp" in each));
    picking.row(track);
    expect(selected).toMatchObject({ cta: 4, warp: undefined });
    expect(picking.picked).toMatchObject({ row: track });
  });

  test("must be there", () => {
    picking.row(99);
    expect(said).toEqual([]);
  });
});

describe("what another widget selects", () => {
  const after = launch.clock.momentAt(WAIT + 1);

  test("is the instruction that led to the moment, of that warp", () => {
    picking.follow({ cta: 4, warp: 1, moment: after });
    expect(picking.picked).toEqual({ event: WAIT });
  });

  test("is none of ours where another warp, no warp or no moment was meant", () => {
    for (const selection of [
      { cta: 4, warp: 0, moment: after },
      { cta: 4, moment: after },
      { cta: 4, warp: 1 },
    ]) {
      picking.event(INIT);
      picking.follow(selection);
      expect(picking.picked).toBeUndefined();
    }
  });

  test("is not selected again", () => {
    picking.follow({ cta: 4, warp: 1, moment: after });
    expect(said).toEqual([]);
  });
});

describe("keys", () => {
  test("go from barrier to barrier and stop at both ends", () => {
    const visited = [1, 1, 1, -1, -1].map((step) => {
      picking.nextBarrier(step);
      return selected.barrier;
    });
    expect(visited).toEqual([FULL, EMPTY, EMPTY, FULL, FULL].map((each) => barrierKey(launch, each)));
  });

  test("begin at the last barrier going back", () => {
    picking.nextBarrier(-1);
    expect(selected.barrier).toBe(barrierKey(launch, EMPTY));
  });

  test("go from warp to warp and show the row", () => {
    const visited = [1, 1, 1, -1].map((step) => {
      picking.nextWarp(step);
      return selected.warp;
    });
    expect(visited).toEqual([0, 1, 1, 0]);
    expect(timeline.revealRow).toHaveBeenLastCalledWith(shown.timeline.rowOfWarp[0]);
  });

  test("lead from a wait to what ended it, and from there to whom it released", () => {
    picking.event(WAIT);
    picking.cause();
    expect(picking.picked).toMatchObject({ event: COPY });
    picking.effect();
    expect(picking.picked).toMatchObject({ event: WAIT });
  });

  test("lead on from a cause to what its warp had waited for before, and end where it had waited for nothing", () => {
    picking.event(ARRIVE);
    picking.cause();
    expect(picking.picked).toMatchObject({ event: WAIT });
    picking.cause();
    expect(picking.picked).toMatchObject({ event: COPY });
    picking.cause();
    expect(picking.picked).toMatchObject({ event: COPY });
  });

  test("lead on from the last to arrive at a barrier, which is its own cause", () => {
    const event = launch.events.at[ARRIVE] as number;
    const causeOf = shown.relations.causeOf.bind(shown.relations);
    const own = vi
      .spyOn(shown.relations, "causeOf")
      .mockImplementation((each) => (each === event ? event : causeOf(each)));
    picking.event(ARRIVE);
    picking.cause();
    expect(picking.picked).toMatchObject({ event: WAIT });
    own.mockRestore();
  });

  test("lead to the next event that has a cause or an effect where this one has none", () => {
    picking.event(INIT);
    picking.clear();
    picking.cause();
    expect(picking.picked).toMatchObject({ event: WAIT });
    picking.event(MMA);
    picking.effect();
    expect(picking.picked).toMatchObject({ event: ARRIVE });
    picking.event(LAST_WAIT);
    const before = said.length;
    picking.effect(); // nothing comes after it
    expect(said).toHaveLength(before);
  });
});

test("a bundle that was pressed fills the view, with a sixth of it on both sides", () => {
  picking.event(WAIT, { start: 2, end: 8 } as never);
  picking.zoom();
  expect(timeline.glide).toHaveBeenCalledWith({ start: 1, end: 9 });
});

test("a search says which of how many it found, and goes there", () => {
  expect(picking.find("mma", 1)).toMatch(/^1 of \d+$/);
  expect(selected.warp).toBe(1);
  expect(picking.find("no such instruction", 1)).toBe("nothing found");
  expect(picking.find(" ", 1)).toBe("");
});
