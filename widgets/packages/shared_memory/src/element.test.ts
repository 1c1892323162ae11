import { expect, test } from "vitest";
import type { Moments } from "./data";
import { elementIn, phasesOf } from "./element";

const OPCODES = [
  "ld.shared.v4.b32",
  "st.shared.f32",
  "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
  "cp.async.cg.shared.global",
  "ld.shared.v4.u32",
];

/** [kind, pc, start, bytes] of each. */
function moments(rows: [kind: number, pc: number, start: number, bytes: number][]): Moments {
  const column = (at: 0 | 1 | 2 | 3) => Int32Array.from(rows, (row) => row[at]);
  const none = new Int32Array(rows.length);
  return {
    length: rows.length,
    position: none,
    cta: none,
    warp: none,
    kind: column(0),
    pc: column(1),
    tile: none,
    other: none,
    start: column(2),
    bytes: column(3),
    carried: none,
    coordinates: none,
  };
}

const LD = 2;
const ST = 3;
const COPY = 0;
const at = (rows: Parameters<typeof moments>[0], from: number, size: number, moment = 0) =>
  elementIn(
    phasesOf(moments(rows), (pc) => OPCODES[pc], from, size),
    moment,
  );

test("a type that an access names counts more than plain bits, however many there are", () => {
  expect(
    at(
      [
        [LD, 0, 1024, 512],
        [LD, 0, 1024, 512],
        [ST, 1, 1024, 128],
      ],
      1024,
      512,
    ),
  ).toBe("f32");
});

test("plain bits of 16 are taken for f16, of 32 for f32", () => {
  expect(at([[LD, 2, 1024, 512]], 1024, 512)).toBe("f16");
  expect(at([[LD, 0, 1024, 512]], 1024, 512)).toBe("f32");
});

test("accesses of other memory, and copies, say nothing", () => {
  expect(
    at(
      [
        [ST, 1, 4096, 128],
        [COPY, 3, 1024, 128],
      ],
      1024,
      512,
    ),
  ).toBeUndefined();
});

test("a union holds halves while they are copied in, and floats once they are stored over them", () => {
  const rows: Parameters<typeof moments>[0] = [
    [COPY, 3, 1024, 512],
    [LD, 2, 1024, 512],
    [COPY, 3, 1024, 512],
    [LD, 2, 1024, 512],
    [ST, 1, 1024, 128],
    [LD, 0, 1024, 128],
    [LD, 0, 1024, 128],
  ];
  expect([0, 1, 4, 5, 7].map((moment) => at(rows, 1024, 512, moment))).toEqual([
    "f16",
    "f16",
    "f16",
    "f32",
    "f32",
  ]);
});

test("chunks that are loaded as four integers may hold anything", () => {
  const rows: Parameters<typeof moments>[0] = [
    [COPY, 3, 1024, 512],
    [LD, 4, 1024, 512],
    [ST, 1, 1024, 128],
  ];
  expect(at(rows, 1024, 512)).toBeUndefined();
  expect(at(rows, 1024, 512, 3)).toBe("f32");
});
