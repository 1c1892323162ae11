import { Disposer, Transport } from "@sglab/core";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { firstStep, follow } from "./follow";
import type { LaunchSource } from "./protocol";
import { smallLaunch } from "./testing/small_launch";

const { clock, places } = smallLaunch();

/** A session that is at instruction `now`; `answers` lets its moves be answered. */
function made(now: number, connection = "live") {
  const asked: number[] = [];
  const open: (() => void)[] = [];
  const session = { now };
  let heard = () => {};
  const source = {
    live: true,
    connection,
    get: () => session.now,
    onChange: (_: string, listener: () => void) => {
      heard = listener;
      return () => {};
    },
    call(_: string, { position }: { position: number }) {
      asked.push(position);
      return new Promise<void>((resolve) => open.push(resolve));
    },
  } as unknown as LaunchSource;
  const transport = new Transport();
  transport.load({ length: places.size, granularities: [], describe: () => "" });
  const disposer = new Disposer();
  const sight = { seen: true, waiting: undefined as (() => void) | undefined };
  const selected: ((value: { moment?: number }, origin: unknown) => void)[] = [];
  follow({
    source,
    transport,
    disposer,
    selection: {
      on: (each: (typeof selected)[number]) => {
        selected.push(each);
        return () => {};
      },
    } as never,
    inSight: (_, work) => {
      if (sight.seen) work();
      else sight.waiting = work;
    },
    own: "own",
    clock: () => clock,
  });
  const select = (moment: number, origin: unknown = "another") => {
    for (const each of selected) each({ moment }, origin);
  };
  const moved = (position: number) => {
    session.now = position;
    heard();
  };
  const answer = async () => {
    open.shift()?.();
    await vi.advanceTimersByTimeAsync(0);
  };
  return { source, transport, asked, moved, answer, select, sight, disposer };
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test("a widget opens where its session is, or at the start where there is none", () => {
  expect(firstStep(made(8).source, clock)).toBe(clock.stepOf(8));
  expect(firstStep(made(-1).source, clock)).toBe(0);
  expect(firstStep({ ...made(8).source, live: false } as LaunchSource, clock)).toBe(clock.stepOf(8));
});

test("it goes where the session goes, without asking it back", () => {
  const { transport, asked, moved } = made(0);
  moved(8);
  expect(transport.position).toBe(clock.stepOf(8));
  vi.advanceTimersByTime(1000);
  expect(asked).toEqual([]);
});

test("it goes to the moment that another widget has selected, and takes the session along", () => {
  const { transport, asked, select } = made(0);
  select(14, "own");
  expect(transport.position).toBe(0);
  select(8);
  expect(transport.position).toBe(clock.stepOf(8));
  vi.advanceTimersByTime(1000);
  expect(asked).toEqual([8]);
});

describe("out of sight", () => {
  const unseen = (now: number) => {
    const page = made(now);
    page.sight.seen = false;
    const see = () => {
      page.sight.seen = true;
      page.sight.waiting?.();
    };
    return { ...page, see };
  };

  test("it takes no session along until it is seen, and then to the newest moment only", () => {
    const { transport, asked, select, see } = unseen(0);
    select(3);
    select(8);
    vi.advanceTimersByTime(1000);
    expect(asked).toEqual([]);
    see();
    expect(transport.position).toBe(clock.stepOf(8));
    vi.advanceTimersByTime(1000);
    expect(asked).toEqual([8]);
  });

  test("where the session has gone since is newer than a moment, and asks nothing", () => {
    const { transport, asked, select, moved, see } = unseen(0);
    select(3);
    moved(8);
    see();
    vi.advanceTimersByTime(1000);
    expect(transport.position).toBe(clock.stepOf(8));
    expect(asked).toEqual([]);
  });
});

describe("where the reader goes", () => {
  test("the session goes, once he has stopped", () => {
    const { transport, asked } = made(0);
    for (const step of [2, 3, 5]) transport.goTo(step);
    expect(asked).toEqual([]);
    vi.advanceTimersByTime(1000);
    expect(asked).toEqual([clock.momentAt(5)]);
  });

  test("stays, although the session reports on its way where he has been before", async () => {
    const { transport, asked, moved, answer } = made(0);
    transport.goTo(3);
    vi.advanceTimersByTime(1000);
    transport.goTo(6);
    moved(clock.momentAt(3)); // the first request is being carried out
    expect(transport.position).toBe(6);
    vi.advanceTimersByTime(1000);
    await answer();
    expect(transport.position).toBe(6);
    moved(clock.momentAt(6));
    await answer();
    expect(transport.position).toBe(6);
    expect(asked).toEqual([clock.momentAt(3), clock.momentAt(6)]);
  });

  test("is his alone when Python is gone", () => {
    const { transport, asked, moved } = made(0, "lost");
    transport.goTo(3);
    vi.advanceTimersByTime(1000);
    moved(14);
    expect(asked).toEqual([]);
    expect(transport.position).toBe(3);
  });
});

test("a widget that is closed asks no more", () => {
  const { transport, asked, disposer } = made(0);
  transport.goTo(3);
  disposer.dispose();
  vi.advanceTimersByTime(1000);
  expect(asked).toEqual([]);
});
