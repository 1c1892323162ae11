import { describe, expect, test } from "vitest";
import { byName, floatText, type Register, readRegisters, summary, textOf } from "./registers";

function register(type: string, size: number, write: (view: DataView, lane: number) => void): Register {
  const view = new DataView(new ArrayBuffer(size === 0 ? 4 : 32 * size));
  if (size === 0) write(view, 0);
  else for (let lane = 0; lane < 32; lane++) write(view, lane);
  return { name: "%r1", type, size, view, changed: false };
}
const ALL = -1;
const lanes = register("u32", 4, (view, lane) => view.setUint32(4 * lane, 4 * lane + 16, true));

describe("values", () => {
  test("in the form that their type implies, or that the reader chooses", () => {
    const minus = register("s32", 4, (view, lane) => view.setInt32(4 * lane, -2, true));
    expect((["auto", "hex", "unsigned"] as const).map((format) => textOf(minus, 0, format))).toEqual([
      "-2",
      "0xfffffffe",
      "4294967294",
    ]);
    const bits = register("b16", 2, (view, lane) => view.setUint16(2 * lane, 0x3c00, true));
    expect([textOf(bits, 0, "auto"), textOf(bits, 0, "float")]).toEqual(["0x3c00", "1"]);
    const bf16 = register("bf16", 2, (view, lane) => view.setUint16(2 * lane, 0x3fc0, true));
    expect(textOf(bf16, 5, "auto")).toBe("1.5");
  });

  test("of 64 and 128 bits keep all their digits", () => {
    const wide = register("u64", 8, (view, lane) => view.setBigUint64(8 * lane, 2n ** 64n - 1n, true));
    expect(textOf(wide, 3, "auto")).toBe("18446744073709551615");
    const widest = register("b128", 16, (view, lane) => view.setBigUint64(16 * lane + 8, 1n, true));
    expect(textOf(widest, 0, "auto")).toBe(`0x${"1".padStart(16, "0")}${"0".repeat(16)}`);
  });

  test("of predicates are a bit per lane", () => {
    const predicate = register("pred", 0, (view) => view.setUint32(0, 0b101, true));
    expect([0, 1, 2].map((lane) => textOf(predicate, lane, "auto"))).toEqual(["true", "false", "true"]);
    expect(summary(predicate, ALL, "auto")).toBe("2 of 32 true");
  });
});

describe("what lanes have in common", () => {
  test("one value, a line through them, or a range", () => {
    expect(
      summary(
        register("u32", 4, (view, lane) => view.setUint32(4 * lane, 7, true)),
        ALL,
        "auto",
      ),
    ).toBe("= 7");
    expect(summary(lanes, ALL, "auto")).toBe("= 16 + 4·lane");
    const mixed = register("f32", 4, (view, lane) =>
      view.setFloat32(4 * lane, lane === 9 ? Number.NaN : lane % 5, true),
    );
    expect(summary(mixed, ALL, "auto")).toBe("0 … 4, 1 NaN");
  });

  test("counts only the lanes that take part", () => {
    expect(summary(lanes, 1 << 4, "auto")).toBe("= 32");
    expect(summary(lanes, 0, "auto")).toBe("");
    expect(summary(lanes, 0b1110, "auto")).toBe("steps of 4 per lane");
  });
});

test("registers are one after the other in the bytes, and say whether they are new", () => {
  const data = Uint8Array.from({ length: 32 * 2 + 4 }, (_, i) => i);
  const bytes = { dtype: "uint8", shape: [data.length], data } as const;
  const rows: [string, string, number][] = [
    ["%h1", "u16", 2],
    ["%p1", "pred", 0],
  ];
  const first = readRegisters({ rows, bytes }, new Map());
  expect(first.map(({ view, changed }) => [view.byteOffset, view.byteLength, changed])).toEqual([
    [0, 64, false],
    [64, 4, false],
  ]);
  const changed = Uint8Array.from(data, (value, i) => (i === 65 ? value + 1 : value));
  const before = new Map(first.map(({ name, view }) => [name, view]));
  const second = readRegisters({ rows, bytes: { ...bytes, data: changed } }, before);
  expect(second.map((each) => each.changed)).toEqual([false, true]);
});

test("names sort by their number, floats are written short", () => {
  expect(["%r10", "%p1", "%r2"].sort(byName)).toEqual(["%p1", "%r2", "%r10"]);
  expect([0, -0, 1 / 3, -1e-9, 2.5e8, Number.NaN].map(floatText)).toEqual([
    "0",
    "−0",
    "0.33333",
    "−1.000e−9",
    "2.500e+8",
    "NaN",
  ]);
});
