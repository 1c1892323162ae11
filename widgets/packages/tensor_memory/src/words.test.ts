import { describe, expect, test } from "vitest";
import { KINDS, type Kind, logicalOf, type Moments, parseAddress, type Region, regionAt } from "./data";
import type { Launch, Tile } from "./protocol";
import { formatOf, readsOf } from "./reading";
import { eventsOf, granularitiesOf } from "./track";
import {
  allocatorOf,
  blockTexts,
  eventText,
  type Facts,
  momentSentence,
  reachText,
  stateText,
  warpsOfLane,
} from "./words";

interface Made {
  kind: Kind;
  cta?: number;
  warp?: number;
  tile?: number;
  place?: [number, number, number, number];
  carried?: number;
}

/** D is 128 × 64 in f32; A's 16-bit elements lie in pairs. */
const TILES = [
  {
    name: "D0",
    role: "D",
    type: "f32",
    rows: 128,
    columns: 64,
    packed: 1,
    blocks: [[0, 0, 128, 32, 64, 0, 0]],
  },
  {
    name: "A0",
    role: "A",
    type: "f16",
    rows: 64,
    columns: 32,
    packed: 2,
    blocks: [[1, 64, 64, 128, 16, 0, 8]],
  },
] as Tile[];
const LAUNCH = { ctas: [6, 7], roles: { "6 4": "mma" } } as unknown as Launch;

function facts(made: Made[]): Facts {
  const column = (of: (one: Made) => number) => Int32Array.from(made, of);
  const moments: Moments = {
    length: made.length,
    position: column((one) => made.indexOf(one)),
    cta: column(({ cta = 6 }) => cta),
    warp: column(({ warp = 4 }) => warp),
    pc: column(({ kind }) => KINDS.indexOf(kind)),
    kind: column(({ kind }) => KINDS.indexOf(kind)),
    tile: column(({ tile = -1 }) => tile),
    place: Int32Array.from(made.flatMap(({ place = [0, 0, 0, 0] }) => place)),
    carried: column(({ carried = 0 }) => carried),
  };
  const code = Object.fromEntries(
    KINDS.map((kind, pc) => [
      pc,
      { opcode: `tcgen05.${kind}.sync.aligned`, line: 80 + pc, text: "", source: "" },
    ]),
  );
  return { launch: LAUNCH, moments, code, tiles: TILES, elements: { [KINDS.indexOf("st")]: "bf16" } };
}

describe("a moment's sentence", () => {
  const say = (one: Made) => momentSentence(facts([one]), 0);

  test("says who does what to which lanes and columns", () => {
    expect(say({ kind: "ld", place: [32, 32, 64, 16] })).toBe(
      "Warp 4 (mma) of CTA 6 loads lanes 32–63, columns 64–79 into registers.",
    );
    expect(say({ kind: "alloc", warp: 1, place: [0, 128, 0, 256] })).toBe(
      "Warp 1 of CTA 6 allocates columns 0–255.",
    );
  });

  test("names the matrix that an mma writes", () => {
    expect(say({ kind: "mma", tile: 0, place: [0, 128, 32, 64] })).toBe(
      "Warp 4 (mma) of CTA 6 issues tcgen05.mma.sync.aligned: D0 (128×64 f32) in columns 32–95.",
    );
  });

  test("says how many operations are carried out now", () => {
    expect(say({ kind: "commit", carried: 0 })).not.toContain("carried out");
    expect(say({ kind: "wait", carried: 1 })).toMatch(/ Now one operation issued before is carried out\.$/);
    expect(say({ kind: "wait", carried: 3 })).toMatch(/ Now 3 operations issued before are carried out\.$/);
  });
});

test("an event in short names opcode, warp, step and line; none before the first", () => {
  expect(eventText(facts([{ kind: "mma" }]), 0)).toBe(
    "tcgen05.mma by warp 4 (mma) of CTA 6, step 1, PTX line 84",
  );
  expect(eventText(facts([]), -1)).toBe("none");
});

describe("who allocated a column", () => {
  const made = facts([
    { kind: "alloc", place: [0, 128, 0, 64] },
    { kind: "alloc", cta: 7, place: [0, 128, 64, 64] },
    { kind: "alloc", place: [0, 128, 64, 64] },
    { kind: "alloc", place: [0, 128, 0, 32] }, // after columns 0 to 63 were freed
  ]);

  test("is the latest allocation by then that has it, of that CTA", () => {
    expect(allocatorOf(made, 4, 0, 10)).toBe(3);
    expect(allocatorOf(made, 3, 0, 10)).toBe(0);
    expect(allocatorOf(made, 4, 0, 70)).toBe(2);
    expect(allocatorOf(made, 4, 1, 70)).toBe(1);
  });

  test("is not known where the launch does not show it", () => {
    expect(allocatorOf(made, 1, 0, 70)).toBe(-1);
    expect(allocatorOf(made, 4, 0, 128)).toBe(-1);
  });
});

describe("a matrix", () => {
  test("says where its parts are; of A the columns are its k, several in one", () => {
    expect(blockTexts(facts([]), TILES[0] as Tile)).toEqual([
      "rows 0–127, columns 0–63: CTA 6, lanes 0–127, columns 32–95",
    ]);
    expect(blockTexts(facts([]), TILES[1] as Tile)).toEqual([
      "rows 0–63, k 8–39: CTA 7, lanes 64–127, columns 128–143",
    ]);
  });

  test("has the row and column that a cell is", () => {
    expect(logicalOf(TILES[0] as Tile, 0, 5, 40)).toEqual({ row: 5, column: 8 });
    expect(logicalOf(TILES[1] as Tile, 1, 70, 130)).toEqual({ row: 6, column: 12 });
  });

  test("is not in other cells", () => {
    expect(logicalOf(TILES[0] as Tile, 0, 5, 96)).toBeUndefined();
    expect(logicalOf(TILES[1] as Tile, 0, 70, 130)).toBeUndefined();
    expect(logicalOf(TILES[1] as Tile, 1, 63, 130)).toBeUndefined();
  });
});

describe("the warps that reach a lane", () => {
  test("are those whose number modulo four is the lane's quarter", () => {
    expect(warpsOfLane(40, 12)).toEqual([1, 5, 9]);
    expect(reachText(40, 12)).toBe("warps 1, 5, 9; with the shape .32x32b by lane 8");
    expect(reachText(0, 4)).toBe("warp 0; with the shape .32x32b by lane 0");
  });

  test("may be none, in a CTA of few warps", () => {
    expect(reachText(127, 2)).toBe("no warp of this CTA");
  });
});

describe("an address as a reader types it", () => {
  test("is lane and column, in brackets or not, or the 32 bits of a register", () => {
    for (const text of ["tmem[5,130]", "[5, 130]", "5 130", "TMEM[5,130]", "0x00050082"])
      expect(parseAddress(text), text).toEqual({ lane: 5, column: 130 });
  });

  test("must be in tensor memory", () => {
    for (const text of ["128,0", "0,512", "0x00800000", "0x00000200", "five", "5", ""])
      expect(parseAddress(text), text).toBeUndefined();
  });
});

test("the region at a cell is the one of its CTA that holds it; without one nothing is allocated", () => {
  const region = { cta: 1, lane: 32, lanes: 32, column: 64, columns: 8, state: 1 } as Region;
  expect(regionAt([region], 1, 63, 71)).toBe(region);
  for (const [cta, lane, column] of [
    [0, 63, 71],
    [1, 31, 64],
    [1, 64, 64],
    [1, 32, 72],
  ] as const)
    expect(regionAt([region], cta, lane, column)).toBeUndefined();
  expect(stateText(region)).toBe("written, not read yet");
  expect(stateText(undefined)).toBe("not allocated");
});

describe("steps", () => {
  const made = facts([
    { kind: "alloc", place: [0, 128, 0, 64] },
    { kind: "st", place: [0, 32, 0, 16] },
    { kind: "mma", cta: 7, place: [0, 128, 0, 64] },
    { kind: "ld", cta: 7, place: [0, 32, 0, 16] },
  ]);

  test("stop after the moments of their kind; kinds that a launch lacks are left out", () => {
    const stops = granularitiesOf(made).map(({ id, stops }) => [id, stops && Array.from(stops)]);
    expect(stops).toEqual([
      ["event", undefined],
      ["access", [2, 3, 4]],
      ["mma", [3]],
    ]);
  });

  test("of a cell are those of its CTA that touch it, and MMAs of the pair", () => {
    expect(Array.from(eventsOf(made, { rank: 0, lane: 3, column: 15 }) ?? [])).toEqual([1, 2, 3]);
    expect(Array.from(eventsOf(made, { rank: 0, lane: 3, column: 16 }) ?? [])).toEqual([1, 3]);
    expect(Array.from(eventsOf(made, { rank: 1, lane: 3, column: 15 }) ?? [])).toEqual([3, 4]);
    expect(eventsOf(made, undefined)).toBeUndefined();
  });
});

describe("what cells are read as", () => {
  const known = facts([{ kind: "st" }, { kind: "ld" }]);
  const region = (over: Partial<Region>): Region => ({
    ...{ cta: 0, lane: 0, lanes: 128, column: 0, columns: 4, state: 1 },
    ...{ writer: -1, reader: -1, next: -1, tile: -1, ...over },
  });

  test("their matrix says, else who stores or loads them; else bits", () => {
    expect(formatOf(known, "own", region({ tile: 0, writer: 0 }))).toBe("f32");
    expect(formatOf(known, "own", region({ tile: 1 }))).toBe("f16x2");
    expect(formatOf(known, "own", region({ writer: 0, reader: 1 }))).toBe("bf16x2");
    expect(formatOf(known, "own", region({ writer: 1 }))).toBe("hex");
    expect(formatOf(known, "own", undefined)).toBe("hex");
    expect(formatOf(known, "s32", region({ tile: 0 }))).toBe("s32");
  });

  test("sums in f16 are one of a cell", () => {
    const sums = { ...known, tiles: [{ ...TILES[0], type: "f16" }] as Tile[] };
    expect(formatOf(sums, "own", region({ tile: 0 }))).toBe("f16");
  });

  test("is known of every cell, with a scale for each matrix", () => {
    const regions = [region({ tile: 1, column: 8, lane: 32, lanes: 32 }), region({ tile: 0, column: 32 })];
    const { kinds, masks } = readsOf(known, "own", regions, 1);
    const at = (lane: number, column: number) => kinds[masks[0]?.[column * 128 + lane] as number];
    expect([at(32, 8), at(63, 11), at(0, 35)]).toEqual([
      { format: "f16x2", of: "A" },
      { format: "f16x2", of: "A" },
      { format: "f32", of: "D" },
    ]);
    expect([at(64, 8), at(32, 12)]).toEqual([kinds[0], kinds[0]]);
    expect(kinds[0]).toEqual({ format: "hex", of: "" });
    expect(readsOf(known, "s32", regions, 1).kinds).toEqual([{ format: "s32", of: "" }]);
  });

  test("results of two products have a scale each", () => {
    const two = { ...known, tiles: [TILES[0], { ...TILES[0], name: "D1" }] as Tile[] };
    const { kinds } = readsOf(two, "own", [region({ tile: 0 }), region({ tile: 1, column: 64 })], 1);
    expect(kinds.map(({ of }) => of)).toEqual(["", "D0", "D1"]);
  });
});
