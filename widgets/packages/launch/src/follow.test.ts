import { Disposer, Transport } from "@sglab/core";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { firstStep, followSession } from "./follow";
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
  followSession(source, transport, disposer, () => clock);
  const moved = (position: number) => {
    session.now = position;
    heard();
  };
  const answer = async () => {
    open.shift()?.();
    await vi.advanceTimersByTimeAsync(0);
  };
  return { source, transport, asked, moved, answer, disposer };
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
  expect(firstStep({ live: false } as LaunchSource, clock)).toBe(0);
});

test("it goes where the session goes, without asking it back", () => {
  const { transport, asked, moved } = made(0);
  moved(8);
  expect(transport.position).toBe(clock.stepOf(8));
  vi.advanceTimersByTime(1000);
  expect(asked).toEqual([]);
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
