import { Transport } from "@sglab/core";
import { beforeEach, describe, expect, test, vi } from "vitest";
import type { Recorded } from "./data";
import { Model } from "./model";
import { exactWhole, shareOf } from "./results";

const LSES = [0, Math.log(3), Number.NEGATIVE_INFINITY];

/** Three splits of one tile each, but the last, which has no keys; O has one dim. */
function recorded(request = 0): Recorded {
  const o = [Float32Array.of(1), Float32Array.of(5), Float32Array.of(0)];
  return {
    question: { request },
    info: {},
    scores: Float32Array.of(0, 0),
    tiles: [0, 1].map((split) => ({ split, start: split, end: split + 1 })),
    steps: [{ first: 0, last: 0 }, { first: 1, last: 1 }, undefined],
    splits: 3,
    vDim: 1,
    kernelO: Float32Array.of(4),
    kernelLse: Math.log(4),
    partialO: o,
    partialLse: LSES,
    trueO: o,
    trueLse: LSES,
    truth: () => Float32Array.of(0),
    state: () => ({ tileTop: 0, top: 0, rescale: 1, tileTotal: 1, total: 1, error: 0 }),
    accumulator: () => Float32Array.of(0),
  } as unknown as Recorded;
}

let model: Model;
let transport: Transport;
let changed: ReturnType<typeof vi.fn>;
beforeEach(() => {
  transport = new Transport();
  changed = vi.fn();
  model = new Model(transport, () => undefined, changed as () => void);
  model.load(recorded());
});
const toEnd = () => transport.goTo(transport.track.length);

test("the merges are right: a mean weighted with exp(LSE), and the LSE of all keys", () => {
  toEnd();
  expect(model.final?.computed.o[0]).toBeCloseTo((1 * 1 + 3 * 5) / 4, 6);
  expect(model.final?.computed.lse).toBeCloseTo(Math.log(4), 6);
  expect(model.final?.error).toBeLessThan(1e-6);
  expect(model.kernelError).toBeLessThan(1e-6);
});

test("there is a result when everything is merged and the transport is at the end", () => {
  expect(model.final).toBeUndefined();
  toEnd();
  expect(model.final).toBeDefined();
  transport.goTo(0);
  expect(model.final).toBeUndefined();
});

test("a wrong rule shows in the error", () => {
  model.choose({ rule: "divide_by_max" });
  toEnd();
  expect(model.final?.error).toBeGreaterThan(0.1);
});

describe("by hand", () => {
  beforeEach(() => model.choose({ order: "hand" }));

  test("it begins with the partials alone, at the moment when all are there", () => {
    expect(model.open).toEqual([0, 1, 2]);
    expect(transport.position).toBe(model.steps?.endOfSplit(2));
  });

  test("the first press arms, the second merges; only what is open joins", () => {
    model.join(1);
    expect([model.armed, model.plan]).toEqual([1, []]);
    model.join(2);
    expect([model.armed, model.plan]).toEqual([undefined, [[1, 2]]]);
    expect(model.open).toEqual([0, 3]);
    expect([0, 1, 3].map((node) => model.joins(node))).toEqual([true, false, true]);
    expect(transport.position).toBe(transport.track.length);
  });

  test("pressing the armed one again lets go of it", () => {
    model.join(1);
    model.join(1);
    expect([model.armed, model.plan]).toEqual([undefined, []]);
  });

  test("the last merge can be undone", () => {
    model.join(0);
    model.join(1);
    model.undo();
    expect(model.open).toEqual([0, 1, 2]);
    model.undo(); // nothing is left to undo
    expect(model.plan).toEqual([]);
  });

  test("nothing joins in the other orders", () => {
    model.choose({ order: "fold" });
    expect(model.joins(0)).toBe(false);
  });
});

describe("what the reader puts into a partial", () => {
  test("changes the truth with it: the answer is then that of the other keys", () => {
    model.hold(1, "empty");
    toEnd();
    expect(model.whole?.o[0]).toBeCloseTo(1, 12);
    expect(model.final?.computed.o[0]).toBeCloseTo(1, 6);
  });

  test("goes through a merge that multiplies it by 0, and not through the guarded one", () => {
    model.hold(1, "garbage");
    toEnd();
    expect(model.final?.computed.o[0]).toBeCloseTo(1, 6);
    model.choose({ rule: "merge_state_v2" });
    toEnd();
    expect(model.final?.computed.o[0]).toBeNaN();
  });

  test("is gone with the kernel's own, and with another request", () => {
    model.hold(1, "empty");
    model.hold(1, "kernel");
    expect(model.held.size).toBe(0);
    model.hold(1, "empty");
    model.load(recorded());
    expect(model.held.size).toBe(1); // the same one, recorded again
    model.load(recorded(1));
    expect(model.held.size).toBe(0);
  });
});

test("a share is the part's weight in the whole; without keys it is 0, not NaN", () => {
  const whole = exactWhole(recorded(), new Map());
  const shares = LSES.map((lse) => shareOf({ o: Float32Array.of(0), lse }, whole));
  expect(shares[0]).toBeCloseTo(0.25, 12);
  expect(shares[1]).toBeCloseTo(0.75, 12);
  expect(shares[2]).toBe(0);
  const nothing = { o: Float32Array.of(0), lse: Number.NEGATIVE_INFINITY };
  expect(shareOf(nothing, nothing)).toBe(0);
});

test("who looks at the end stays there when something else is recorded", () => {
  toEnd();
  model.load({ ...recorded(1), splits: 2, steps: recorded().steps.slice(0, 2) });
  expect(transport.position).toBe(transport.track.length);
  transport.goTo(2);
  model.load(recorded());
  expect(transport.position).toBe(2);
});

test("the way back leads to choices, merges by hand, partials and place", () => {
  toEnd();
  const first = model.wayBack();
  model.choose({ order: "hand", rule: "divide_by_max" });
  model.join(0);
  model.join(1);
  model.hold(2, "empty");
  const [second, plan] = [model.wayBack(), model.plan];
  first();
  expect(model.choices).toMatchObject({ order: "fold", rule: "v2_guarded" });
  expect([model.plan.length, model.held.size]).toEqual([2, 0]);
  expect(transport.position).toBe(transport.track.length);
  second();
  expect(model.choices).toMatchObject({ order: "hand", rule: "divide_by_max" });
  expect(model.plan).toEqual(plan);
  expect(model.held.get(2)).toBe("empty");
});
