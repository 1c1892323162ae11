import { describe, expect, it } from "vitest";
import { blocksNote } from "./blocks_view";
import { choicesOf, imbalance, keepsGroup, loadOf, type Recorded } from "./data";
import { expertFacts, logitOf } from "./details";
import { segmentsOf } from "./ranks_view";
import { highest } from "./routing_view";
import { blocksSentence, lookedAt, phasesOf, phasesRun, Steps } from "./steps";

/** Three tokens, four experts in two groups, one expert each; blocks of two. */
function recorded(change: Partial<Recorded["rule"]> = {}): Recorded {
  return {
    shown: { step: 0, layer: 0, ranks: 2, redundant: 2, block: 2 },
    passes: [{ number: 0, mode: "EXTEND", tokens: 3 }],
    layers: [{ layer: 1, name: "layers.1" }],
    rule: {
      topK: 1,
      scoring: "sigmoid",
      renormalize: true,
      scale: 1,
      groups: 2,
      topkGroup: 1,
      biased: true,
      experts: 4,
      blocks: [2],
      ...change,
    },
    texts: { 65: "A" },
    names: ["chat-3"],
    tokens: [0, 1, 2].map((position) => ({ token: 65, position, request: 0 })),
    logits: Float32Array.of(1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1),
    scores: Float32Array.of(0.7, 0.5, 0.5, 0.5, 0.5, 0.7, 0.5, 0.5, 0.5, 0.5, 0.5, 0.7),
    bias: Float32Array.of(0, 0.1, 0, 0.1),
    kept: Uint8Array.of(1, 0, 1, 0, 0, 1),
    ids: Int32Array.of(1, 1, 3),
    weights: Float32Array.of(1, 1, 1),
    sorted: Int32Array.of(0, 1, 2, 3),
    blockExperts: Int32Array.of(1, 3),
    postPad: 4,
    load: [0, 6, 0, 3],
    even: { physical: [0, 1, 2, 3], rankLoad: [6, 3] },
    eplb: { physical: [1, 0, 3, 1, 2, 1], rankLoad: [5, 4] },
  };
}

describe("moments", () => {
  it("have a bias and groups only where the layer has", () => {
    expect(phasesOf(recorded())).toEqual(["score", "bias", "groups", "choose", "weigh"]);
    expect(phasesOf(recorded({ biased: false, groups: 1 }))).toEqual(["score", "choose", "weigh"]);
  });

  it("route token by token, then lay out blocks", () => {
    const steps = new Steps(recorded());
    expect([steps.routedAt, steps.moments.length]).toEqual([15, 17]);
    expect(steps.standing(0)).toMatchObject({ routed: 0, blocks: 0, token: undefined });
    expect(steps.standing(7)).toMatchObject({ routed: 1, token: 1, phase: "bias", blocks: 0 });
    expect(steps.standing(15)).toMatchObject({ routed: 3, blocks: 0 });
    expect(steps.standing(16)).toMatchObject({ routed: 3, blocks: 1 });
    expect(steps.standing(17)).toMatchObject({ routed: 3, blocks: 2 });
  });

  it("say what of a token has run, and which token to look at", () => {
    const read = recorded();
    const at = (position: number, token: number) =>
      phasesRun(read, new Steps(read).standing(position), token).length;
    expect([at(0, 0), at(1, 0), at(3, 0), at(5, 0), at(7, 0), at(7, 1), at(7, 2), at(17, 2)]).toEqual([
      0, 1, 3, 5, 5, 2, 0, 5,
    ]);
    expect([0, 7, 10, 17].map((position) => lookedAt(new Steps(read).standing(position)))).toEqual([
      0, 1, 1, 2,
    ]);
  });

  it("name more than two groups as one does", () => {
    const read = { ...recorded({ groups: 4, topkGroup: 3 }), kept: Uint8Array.of(1, 1, 0, 1) };
    expect(new Steps(read).describe(3)).toContain("groups 0, 1 and 3 are the best of 4");
  });

  it("are told in sentences, none twice", () => {
    const steps = new Steps(recorded());
    const all = Array.from({ length: steps.moments.length + 1 }, (_, i) => steps.describe(i));
    expect(all[3]).toBe(
      "Token 0 “A” of chat-3, position 0: group 0 is the best of 2; the experts of the others are out.",
    );
    expect(all[4]).toBe("Token 0 “A” of chat-3, position 0: the best 1 are e1 (0.600).");
    expect(all[5]).toContain("weights e1 1.000: scores without bias over their sum.");
    const [plain] = [new Steps(recorded({ biased: false }))];
    expect(plain.describe(4)).toContain("weights e1 1.000: scores over their sum.");
    expect(all[17]).toBe("Expert 3: 1 choice in 1 block of 2, 1 row of padding.");
    expect(new Set(all).size).toBe(all.length);
  });

  it("of a selected expert are those in which it is chosen", () => {
    const track = new Steps(recorded()).track(() => ({ expert: 1 }));
    expect(track.eventsOfSelection?.()).toEqual([4, 9, 16]);
  });
});

it("loads, groups and choices", () => {
  const run = recorded();
  expect([loadOf(run, 0), loadOf(run, 2), loadOf(run, 3)]).toEqual([
    [0, 0, 0, 0],
    [0, 2, 0, 0],
    [0, 2, 0, 1],
  ]);
  expect(choicesOf(run, 2)).toEqual([{ expert: 3, weight: 1 }]);
  expect([keepsGroup(run, 0, 0), keepsGroup(run, 0, 1)]).toEqual([true, false]);
  expect([imbalance([6, 3]), imbalance([0, 0])]).toEqual([6 / 4.5, 1]);
});

it("padding is counted", () => {
  expect(blocksNote(recorded(), true)).toMatch(
    /num_tokens_post_pad is 4, 1 of it padding \(25 %\)\. Numbers are tokens\.$/,
  );
  expect(blocksNote(recorded(), false)).toMatch(/padding \(25 %\)\.$/);
  expect(blocksSentence(recorded(), 1)).toBe("Expert 1: 2 choices in 1 block of 2, 0 rows of padding.");
});

it("copies share an expert's load", () => {
  const run = recorded();
  expect(segmentsOf(run.eplb, run.load)).toEqual([
    [
      { expert: 1, load: 2, copies: 3 },
      { expert: 0, load: 0, copies: 1 },
      { expert: 3, load: 3, copies: 1 },
    ],
    [
      { expert: 1, load: 2, copies: 3 },
      { expert: 2, load: 0, copies: 1 },
      { expert: 1, load: 2, copies: 3 },
    ],
  ]);
  expect(Object.fromEntries(expertFacts(run, 1, 3))).toMatchObject({
    "this pass": "2 tokens",
    "in order on": "rank 0",
    "by EPLB on": "rank 0, rank 1 ×2",
  });
});

it("a NaN among scores leaves the others their scale", () => {
  expect(highest(Float32Array.of(0.25, Number.NaN, 0.75))).toBe(0.75);
});

it("logits are written without a minus before nothing, and without words for infinity", () => {
  const written = [-0.42, -0.001, 0, Number.NEGATIVE_INFINITY, Number.NaN].map(logitOf);
  expect(written).toEqual(["-0.42", "0.00", "0.00", "-∞", "NaN"]);
});
