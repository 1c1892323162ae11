import { expect, test } from "vitest";
import type { Launch } from "./protocol";
import { choiceFor, neighbours, sentence, sizeFor } from "./words";

test("captures and replays in words", () => {
  expect(sentence({ kind: "capture", bs: 8, warm_ups: 2, launches: 120 })).toBe(
    "Size 8 captured after 2 runs to warm up: 120 launches recorded.",
  );
  const replay = { kind: "replay", raw: 3, bs: 4, step: 7, requests: [], inputs: {} } as const;
  expect(sentence({ ...replay, requests: [] })).toBe(
    "The engine's step 7: 3 requests replayed with the graph of size 4, padded by 1 slot.",
  );
  expect(sentence({ ...replay, raw: 4, step: -1, requests: [] })).toContain("without padding");
});

test("the size that serves a batch", () => {
  expect([1, 3, 8].map((each) => sizeFor([1, 2, 4], each))).toEqual([1, 4, undefined]);
});

test("what a launch depends on, and what depends on it until it is written again", () => {
  const launches: Launch[] = [
    ["a", [0], [1]],
    ["b", [1], [2]],
    ["c", [1, 2], [1]],
    ["d", [1], [3]],
  ];
  expect(neighbours(launches, 0)).toEqual({ before: [], after: [1, 2] });
  expect(neighbours(launches, 2)).toEqual({ before: [0, 1], after: [3] });
});

test("what a batch does, and that there is none without a request", () => {
  expect(choiceFor([1, 2, 4], 3)).toBe("requests: replays size 4, 1 slot padded");
  expect(choiceFor([1, 2, 4], 1)).toBe("request: replays size 1, 0 slots padded");
  expect(choiceFor([1, 2, 4], 5)).toBe("requests: runs without a graph, the largest is 4");
  for (const none of [0, -1, 2.5, Number.NaN])
    expect(choiceFor([1, 2, 4], none)).toBe("requests: write a whole number, at least 1");
});
