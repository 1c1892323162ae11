import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Disposer } from "./emitter";
import { keepPlace } from "./place";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function made(live = true) {
  const at = { position: 0, connection: "connected" as "connected" | "lost" };
  const told: number[] = [];
  const disposer = new Disposer();
  const moved = keepPlace(
    { live, connection: () => at.connection as "lost" },
    disposer,
    () => at.position,
    (position) => told.push(position),
  );
  const go = (position: number) => {
    at.position = position;
    moved();
  };
  return { at, told, go, disposer };
}

test("Python hears where the reader rests, not what was passed on the way, nor where it opened", () => {
  const { told, go } = made();
  go(4);
  vi.runAllTimers();
  expect(told).toEqual([]);
  for (const position of [5, 6, 7]) go(position);
  vi.runAllTimers();
  expect(told).toEqual([7]);
  go(7);
  vi.runAllTimers();
  expect(told).toEqual([7]);
});

test("nobody hears of a saved page, after the end, or without a connection", () => {
  const saved = made(false);
  const ended = made();
  const lost = made();
  for (const { go } of [saved, ended, lost]) {
    go(1);
    go(2);
  }
  ended.disposer.dispose();
  lost.at.connection = "lost";
  vi.runAllTimers();
  expect([saved.told, ended.told, lost.told]).toEqual([[], [], []]);
});
