import { describe, expect, test } from "vitest";
import { exactMerge, leavesOf, merge, type Order, type Partial, planOf, relativeError, roots } from "./merge";

const PARTS: Partial[] = [
  { o: Float32Array.of(1, 2), lse: 3 },
  { o: Float32Array.of(-1, 0.5), lse: 5.5 },
  { o: Float32Array.of(4, -2), lse: -1 },
];
const EMPTY: Partial = { o: Float32Array.of(Number.NaN, Number.NaN), lse: Number.NEGATIVE_INFINITY };
const zeros = { o: Float32Array.of(0, 0), lse: Number.NEGATIVE_INFINITY };

test("the exact merge is a softmax-weighted mean, and its LSE that of all keys", () => {
  const { o, lse } = exactMerge(PARTS);
  const weights = PARTS.map(({ lse }) => Math.exp(lse));
  const total = weights.reduce((a, b) => a + b);
  expect(lse).toBeCloseTo(Math.log(total), 12);
  expect(o[0]).toBeCloseTo(
    ((weights[0] as number) - (weights[1] as number) + 4 * (weights[2] as number)) / total,
    12,
  );
});

describe.each(["v2_guarded", "merge_state", "merge_state_v2"] as const)("%s", (rule) => {
  const truth = exactMerge(PARTS);

  test("agrees with float64 to float32's precision, in any order", () => {
    for (const parts of [PARTS, [...PARTS].reverse()]) {
      const merged = merge(rule, parts);
      expect(relativeError(merged.o, truth.o)).toBeLessThan(1e-6);
      expect(merged.lse).toBeCloseTo(truth.lse, 5);
      expect(merged.shares.reduce((a, b) => a + b)).toBeCloseTo(1, 6);
    }
  });

  test("merging merged partials is merging all at once", () => {
    const twice = merge(rule, [merge(rule, PARTS.slice(0, 2)), PARTS[2] as Partial]);
    expect(relativeError(twice.o, truth.o)).toBeLessThan(1e-6);
  });
});

describe("empty partials", () => {
  test("the guarded rule does not read them, and only empty ones give an empty one", () => {
    expect(merge("v2_guarded", [PARTS[0] as Partial, EMPTY])).toMatchObject({
      o: Float32Array.of(1, 2),
      lse: 3,
    });
    expect(merge("v2_guarded", [EMPTY, EMPTY])).toMatchObject(zeros);
  });

  test("FlashInfer's rule gives nothing for two, but a NaN survives its weight 0", () => {
    expect(merge("merge_state", [zeros, zeros])).toMatchObject(zeros);
    expect(merge("merge_state", [PARTS[0] as Partial, EMPTY]).o[0]).toBeNaN();
  });

  test("the natural rule makes NaN of two", () => {
    expect(merge("merge_state_v2", [zeros, zeros]).lse).toBeNaN();
  });
});

test("the wrong rules are wrong", () => {
  const truth = exactMerge(PARTS).o;
  for (const rule of ["divide_by_max", "newcomer_unweighted", "base2_in_natural"] as const)
    expect(relativeError(merge(rule, PARTS).o, truth)).toBeGreaterThan(5e-3);
  const large = PARTS.map(({ o, lse }) => ({ o, lse: lse + 100 }));
  expect(relativeError(merge("unshifted", PARTS).o, truth)).toBeLessThan(1e-6);
  expect(merge("unshifted", large).o[0]).toBeNaN();
});

describe("plans", () => {
  test.each([
    [
      "fold",
      [
        [0, 1],
        [4, 2],
        [5, 3],
      ],
    ],
    [
      "reverse",
      [
        [3, 2],
        [4, 1],
        [5, 0],
      ],
    ],
    [
      "tree",
      [
        [0, 1],
        [2, 3],
        [4, 5],
      ],
    ],
    ["once", [[0, 1, 2, 3]]],
    ["hand", []],
  ] as const)("%s", (order, plan) => expect(planOf(order, 4)).toEqual(plan));

  test("merge every partial once, into one", () => {
    for (const order of ["fold", "reverse", "tree", "once"] satisfies Order[])
      for (let leaves = 2; leaves <= 9; leaves++) {
        const plan = planOf(order, leaves);
        expect(roots(plan, leaves)).toEqual([leaves + plan.length - 1]);
        expect(leavesOf(plan, leaves).at(-1)).toEqual(Array.from({ length: leaves }, (_, i) => i));
      }
  });

  test("one partial needs none", () => expect(planOf("fold", 1)).toEqual([]));
});
