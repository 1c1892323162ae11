import { expect, test } from "vitest";
import type { Barrier } from "./data";
import { Relations } from "./relations";
import { effectOf, eventText, operationText, sentenceOf, waitText } from "./sentences";
import { smallLaunch } from "./testing/small_launch";

const launch = smallLaunch();
const relations = new Relations(launch);

test("each step says who did what, and what it led to", () => {
  expect([0, 1, 2, 4, 7].map((step) => sentenceOf(launch, relations, step))).toEqual([
    "Nothing has been executed yet.",
    "CTA 4 warp 0 (load): mbarrier.init (small.cu:10).",
    "CTA 4 warp 0 (load): cp.async.bulk.tensor (small.cu:12). What it issued later ended phase 0 of full[0] and released 1 waiting warp.",
    "CTA 4 warp 1 (mma): mbarrier.try_wait (small.cu:20). It had waited at full[0] for 2 instructions.",
    "CTA 4 warp 1 (mma): mbarrier.arrive (small.cu:22). It ended phase 0 of empty[0].",
  ]);
});

test("a phase that ends at a barrier of each CTA of a pair is said once", () => {
  const pair = smallLaunch();
  const [full, empty] = pair.meta.barriers as [Barrier, Barrier];
  pair.meta = { ...pair.meta, ctas: [4, 5], barriers: [full, { ...empty, name: full.name, rank: 1 }] };
  const { event, asynchronous } = pair.phases;
  event[1] = event[0] as number;
  asynchronous[1] = 1;
  expect(effectOf(pair, new Relations(pair), 2)).toBe(
    " What it issued later ended phase 0 of full[0] of CTAs 4 and 5 and released 1 waiting warp.",
  );
});

test("an event's text has its place in the PTX and in the source", () => {
  expect(eventText(launch, relations, 5).split("\n")).toEqual([
    "CTA 4 warp 0 (load)",
    "add.s32 …;",
    "PTX line 105 · small.cu:14 · event 11",
  ]);
});

test("a wait's says for what, for how long and who ended it", () => {
  expect(waitText(launch, 0)).toBe(
    "CTA 4 warp 1 (mma)\nwaits at full[0], for 2 instructions\nreleased by CTA 4 warp 0 (load)",
  );
});

test("an operation's says its size and what it signals; many together are counted", () => {
  expect(operationText(launch, 0).split("\n")).toEqual([
    "copies: copy",
    "issued by CTA 4 warp 0",
    "in flight from 1 to 3",
    "4.0 KiB",
    "signals full[0]",
  ]);
  expect(operationText(launch, 1).split("\n")[0]).toBe("matrix products: 4 × mma");
});
