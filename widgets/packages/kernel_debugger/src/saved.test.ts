import { describe, expect, test } from "vitest";
import type { CodeModel } from "./code_model";
import type { Action, DebuggerSource, MoveOptions } from "./protocol";
import { SavedMoments } from "./saved";

// Two warps. By moment: position, warp that executed last, its pc, then the pcs at which both are.
const MOMENTS: [position: number, warp: number | null, pc: number, pcs: [number, number]][] = [
  [100, null, 0, [0, 0]],
  [101, 0, 0, [1, 0]],
  [102, 1, 0, [1, 1]],
  [103, 0, 1, [2, 1]],
  [110, 0, 2, [3, 1]],
  [111, 1, 1, [3, 2]],
];
const EVENT = 2; // a pc
const WARP = { cta: 0, warp: 0 };
const PRESENT = 2; // where it was saved

const values = [[1, 2], [9]]; // bytes of two values
const set = Int32Array.of(1, 0, 0, 1); // register 1 holds value 0, register 0 holds value 1

const source = {
  async slice(name: string) {
    const content = {
      present: MOMENTS[PRESENT]?.[0],
      registers: [{ name: "r0" }, { name: "r1" }],
      moments: MOMENTS.map(([position, warp, pc, pcs]) => ({
        position,
        focus: [0, 1, 0],
        last: warp === null ? null : [0, warp, pc],
        warps: pcs.map((at, index) => ({ cta: 0, warp: index, groups: [[at]] })),
        sets: [[0, 0, 0, 0]],
      })),
    };
    const data: Record<string, ArrayLike<number>> = {
      moments: new TextEncoder().encode(JSON.stringify(content)),
      "values.bytes": Uint8Array.from(values.flat()),
      "values.start": Int32Array.of(0, 2, 3),
      "sets.bytes": new Uint8Array(set.buffer),
      "sets.start": Int32Array.of(0, set.byteLength),
    };
    return { data: data[name] };
  },
} as unknown as DebuggerSource;
/** pcs 0 and 1 are of one line. */
const code = {
  isEvent: (pc: number) => pc === EVENT,
  placeName: (pc: number) => `line ${pc >> 1}`,
} as unknown as CodeModel;

const opened = () => SavedMoments.read(source, code);
/** Where moves lead, one after the other. */
async function walk(...moves: (Action | [Action, MoveOptions])[]): Promise<number[]> {
  const saved = await opened();
  const visited: number[] = [];
  for (const move of moves) {
    const [action, options] = Array.isArray(move) ? move : [move, {}];
    visited.push((await saved.go(action, options, WARP)).position);
  }
  return visited;
}

test("it opens where it was saved", async () => {
  expect((await (await opened()).look(WARP)).position).toBe(102);
});

describe("moves between the moments that it holds", () => {
  test("go one on or back, and stay at both ends", async () => {
    expect(await walk("step", "step", "back")).toEqual([103, 110, 103]);
    expect(await walk("end", "step", "run_back", "back", "run")).toEqual([111, 111, 100, 100, 111]);
  });

  test("of the warp go to the next that it made", async () => {
    expect(await walk("warp", "warp", "warp", "warp_back")).toEqual([103, 110, 111, 110]);
  });

  test("by line go to where the warp comes to another one", async () => {
    expect(await walk("run_back", "line", "line_back")).toEqual([100, 103, 100]);
  });

  test("by event go to the next event, of any warp or of this", async () => {
    expect(await walk("event", "event_back")).toEqual([110, 100]);
    expect(await walk("run_back", "warp_event")).toEqual([100, 110]);
  });

  test("to a position go to the nearest, of two as near the earlier", async () => {
    const at = async (position: number) => (await walk(["seek", { position }]))[0];
    expect(await at(103)).toBe(103);
    expect(await at(106)).toBe(103);
    expect(await at(107)).toBe(110);
    expect(await at(0)).toBe(100);
    expect(await at(1000)).toBe(111);
  });
});

test("the warp that is looked at is in focus where it exists, else the one that was", async () => {
  const saved = await opened();
  expect((await saved.look(WARP)).focus).toEqual([0, 0, 0]);
  expect((await saved.look({ cta: 7, warp: 0 })).focus).toEqual([0, 1, 0]);
});

test("registers have the values that they had then; a warp whose registers were not kept has none", async () => {
  const saved = await opened();
  const { registers } = await saved.look(WARP);
  expect(registers?.rows).toEqual([{ name: "r1" }, { name: "r0" }]);
  expect(Array.from(registers?.bytes.data ?? [])).toEqual([1, 2, 9]);
  const other = (await saved.look({ cta: 0, warp: 1 })).registers;
  expect(other?.rows).toEqual([]);
});

test("what needs Python is refused with what to do", async () => {
  await expect((await opened()).ask()).rejects.toThrow(/saved page.*a notebook or sglab step/);
});
