import { describe, expect, it } from "vitest";
import { exchanged, layerOf, metAt, type Recorded, sharesOf, spanOf } from "./data";
import { kindsOf } from "./looks";
import type { Joint, Weight } from "./protocol";
import { layersOf, told } from "./shards_view";
import { trackOf } from "./steps";
import { shapes } from "./table_view";
import { commonUnit, reason, rule, sentence, shortName, wrapped } from "./words";

function joint(module: string, change: Partial<Joint> = {}): Joint {
  return {
    kind: "all_reduce",
    what: "",
    module,
    moduleClass: "RowParallelLinear",
    ranks: [0, 1],
    shapes: { 0: [2, 8], 1: [2, 8] },
    dtype: "float32",
    bytes: { 0: 64, 1: 64 },
    moved: 64,
    ...change,
  };
}

const NONE = Number.NaN;

/** Rank 0 computes 10 µs, waits 20, moves 5; rank 1 computes 30, moves 5; then rank 1 alone takes part in a send. */
const recorded: Recorded = {
  step: 0,
  passes: [{ number: 0, modes: ["EXTEND"], tokens: [9, 4], padding: "SUM_LEN", rows: 13 }],
  joints: [
    joint("model.layers.0.self_attn.o_proj"),
    joint("model.layers.1.mlp", { kind: "all_to_all", moved: 48 }),
  ],
  run: { title: "x", size: 2, dpSize: 2, epSize: 1, backend: "gloo" },
  weights: [],
  times: Float64Array.of(10, 35, 30, 35, NONE, NONE, 40, 41),
  parts: Float64Array.of(NONE, NONE, NONE, NONE, 16, 48, 32, 0),
  begins: [0, 0],
};

describe("times", () => {
  it("of a rank that takes no part are none", () => {
    expect(spanOf(recorded, 0, 0)).toEqual({ begin: 10, end: 35 });
    expect(spanOf(recorded, 1, 0)).toBeUndefined();
  });

  it("until the last rank has come the others wait", () => {
    expect(metAt(recorded, 0)).toBe(30);
    expect(sharesOf(recorded, 0)).toEqual({ computing: 10, waiting: 20, moving: 5 });
    expect(sharesOf(recorded, 1).waiting).toBe(0);
  });

  it("where collectives run at once the time counts once", () => {
    const [twice] = [{ ...recorded, joints: [recorded.joints[0] as Joint, recorded.joints[0] as Joint] }];
    const times = Float64Array.from({ length: 8 }, (_, i) => recorded.times[i % 4] as number);
    expect(sharesOf({ ...twice, times }, 0)).toEqual(
      sharesOf({ ...twice, joints: [recorded.joints[0] as Joint] }, 0),
    );
  });
});

it("bytes from rank to rank are there where they are exchanged in parts", () => {
  expect(exchanged(recorded, 0)).toBeUndefined();
  expect(exchanged(recorded, 1)).toEqual([
    [16, 48],
    [32, 0],
  ]);
});

it("a track stops at every layer", () => {
  const track = trackOf(recorded, () => "model.layers.1.");
  expect(track.length).toBe(2);
  expect(track.granularities[1]?.stops).toEqual([1, 2]);
  expect(track.eventsOfSelection?.()).toEqual([2]);
  expect(track.describe(0)).toBe("The pass begins: no collective has run.");
  expect(sentence(recorded, 0)).toBe(
    "all-reduce of model.layers.0.self_attn.o_proj: 64 B leave a rank; rank 1 came last, after 20.00 µs; then 5.00 µs.",
  );
});

describe("words", () => {
  it("say why a layer needs a collective", () => {
    const pass = recorded.passes[0];
    expect(reason(joint("x"), pass)).toContain("its share of the input features");
    expect(reason(joint("x", { moduleClass: "VocabParallelEmbedding" }), pass)).toContain(
      "a range of token ids",
    );
    expect(reason(joint("x", { moduleClass: "Qwen3MoeBlock" }), pass)).toContain("its experts' part");
    expect(
      reason(joint("x", { what: "gather, SUM_LEN", shapes: { 0: [13, 8], 1: [13, 8] } }), pass),
    ).toContain("SUM_LEN: 9 + 4 tokens one after another");
    const padded = { number: 0, modes: ["DECODE"], tokens: [3, 1], padding: "MAX_LEN", rows: 6 };
    expect(
      reason(joint("x", { what: "gather, MAX_LEN", shapes: { 0: [3, 8], 1: [3, 8] } }), padded),
    ).toContain("6 rows, 2 of padding");
    const rows = joint("x", { kind: "all_gather", what: "rows of the prompts" });
    const keys = joint("x", { kind: "all_gather", moduleClass: "RadixAttention" });
    expect(reason(rows, pass)).toContain("sends the rows of its own");
    expect(reason(keys, pass, [rows, keys])).toContain("keys and values of its own");
    expect(reason(keys, pass, [keys])).toContain("Ranks share the keys of each request");
  });

  it("say which of the gatherings of a shared context it is", () => {
    const attention = { module: "model.layers.0.attn", moduleClass: "RadixAttention" } as const;
    const gather = (dtype: string, shape: number[]) =>
      joint("", { ...attention, kind: "all_gather", dtype, shapes: { 0: shape, 1: shape } });
    const [queries, lses] = [gather("float32", [3, 2, 16]), gather("float32", [1, 3, 4])];
    const prefix = gather("uint8", [8, 1, 32]);
    const sums = joint("", {
      ...attention,
      kind: "reduce_scatter",
      shapes: { 0: [4, 3, 16], 1: [4, 3, 16] },
    });
    const all = [queries, lses, sums, prefix];
    expect(reason(queries, undefined, all)).toContain("the queries of all their heads come to every rank.");
    expect(reason(lses, undefined, all)).toContain("the LSEs of what each found");
    expect(reason(prefix, undefined, all)).toContain("cached prefix");
    expect(reason(sums, undefined, all)).toContain("gets what all found for its heads");
  });

  it("say of a pass in two batches which of its rows one gathers", () => {
    const pass = { number: 0, modes: ["EXTEND"], tokens: [17, 36], padding: "SUM_LEN", rows: 53 };
    const one = (kind: Joint["kind"], rows: number) =>
      joint("x", { kind, what: "gather", shapes: { 0: [rows, 8], 1: [rows, 8] } });
    expect(reason(one("all_reduce", 26), pass)).toContain("gathers 26 of the 53 rows");
    expect(reason(one("all_reduce", 53), pass)).toContain("summed: 53 rows");
    const padded = { ...pass, padding: "MAX_LEN", rows: 72 };
    expect(reason(one("all_gather", 18), padded)).toContain("gathers 36 of the 72 rows");
    expect(reason(one("all_gather", 36), padded)).toContain("72 rows, 19 of padding");
  });

  it("say of a part that has padding alone", () => {
    const part = { name: "", axis: "vocab" as const, ids: [] as number[] };
    expect(told({ ...part, start: 96, stop: 96, whole: 96 })).toBe("none: padding");
    expect(told({ ...part, start: 64, stop: 96, whole: 96 })).toBe("64–95 of 96");
  });

  it("give the rule of the bytes", () => {
    const ranks = [0, 1, 2, 3];
    expect(rule(joint("x", { ranks }))).toBe("2 · 3/4 of the tensor (ring)");
    expect(rule(joint("x", { ranks, kind: "all_gather" }))).toBe("3 × this rank's part (ring)");
  });

  it("shorten names and shapes", () => {
    expect(["model.layers.3.self_attn.o_proj", "model.layers.3", "lm_head"].map(shortName)).toEqual([
      "3 · o_proj",
      "layer 3",
      "lm_head",
    ]);
    expect([shapes({ 0: [2, 8], 1: [2, 8] }), shapes({ 0: [2, 8], 1: [3, 8] })]).toEqual([
      "2 × 8",
      "2 × 8, 3 × 8",
    ]);
    expect(shapes({ 0: [2, 8], 1: [3, 8], 2: [9, 8], 3: [4, 8] })).toBe("2–9 × 8");
    expect([layerOf("model.layers.12.mlp"), layerOf("lm_head")]).toEqual([12, undefined]);
  });
});

it("weights are grouped by layer, those around them last", () => {
  const weight = (name: string): Weight => ({ name, kind: "row", held: [] });
  expect(layersOf(["lm_head", "model.layers.10.x", "model.layers.2.y"].map(weight))).toEqual([
    "2",
    "10",
    "around",
  ]);
});

describe("wrapped", () => {
  it.each([
    ["1 · mlp", 14, ["1 · mlp"]],
    ["gather, SUM_LEN", 12, ["gather,", "SUM_LEN"]],
    ["0 · mlp.down_proj", 12, ["0 · mlp.", "down_proj"]],
    ["logits to rank 0", 11, ["logits to", "rank 0"]],
    ["dispatch: rows of every token", 10, ["dispatch:", "rows of e…"]],
    ["unbreakable", 4, ["unbr", "eak…"]],
  ])("%s in %i characters", (name, most, lines) => {
    expect(wrapped(name, most)).toEqual(lines);
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(most);
  });
});

it("bytes of one table have one unit", () => {
  const { unit, write } = commonUnit([Number.NaN, 0, 16, 65_536, 1_047_552]);
  expect(unit).toBe("KiB");
  expect([Number.NaN, 0, 16, 65_536, 1_047_552].map(write)).toEqual(["", "0", "0.0156", "64", "1023"]);
  expect(commonUnit([0, 112]).unit).toBe("B");
});

it("a legend has the kinds of its pass, and those of one look together", () => {
  const kinds = (["send", "all_reduce", "reduce_scatter"] as const).map((kind) => joint("x", { kind }));
  expect(kindsOf(kinds).map(({ names }) => names)).toEqual([["all-reduce", "reduce-scatter"], ["send"]]);
  expect(kindsOf([])).toEqual([]);
});
