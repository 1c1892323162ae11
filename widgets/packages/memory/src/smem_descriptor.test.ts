import { describe, expect, test } from "vitest";
import {
  chunkAddresses,
  decodeSmemDescriptor,
  operandChunks,
  smemDescriptorRemarks,
  smemFields,
} from "./smem_descriptor";

interface Parts {
  start: number;
  leading?: number;
  stride?: number;
  base?: number;
  layout: number;
  version?: number;
}

/** A tcgen05 descriptor as laid out in the PTX ISA. */
function tcgen05({ start, leading = 0, stride = 0, base = 0, layout, version = 1 }: Parts): bigint {
  const at = (value: number, bit: number) => BigInt(value) << BigInt(bit);
  return (
    at(start >> 4, 0) |
    at(leading >> 4, 16) |
    at(stride >> 4, 32) |
    at(version, 46) |
    at(base, 49) |
    at(layout, 61)
  );
}

/** wgmma's: no version, the swizzle in bits 62 and 63. */
const wgmma = (parts: Parts) => tcgen05({ ...parts, layout: 0, version: 0 }) | (BigInt(parts.layout) << 62n);

describe("decoding", () => {
  test("the descriptor of a K-major 128B tile, as kernels build it", () => {
    const bits = 0x4000404000010040n;
    expect(bits).toBe(tcgen05({ start: 0x400, leading: 16, stride: 1024, layout: 2 }));
    expect(decodeSmemDescriptor(bits, "tcgen05")).toEqual({
      start: 0x400,
      leadingOffset: 16,
      strideOffset: 1024,
      baseOffset: 0,
      leadingIsAbsolute: false,
      swizzle: "128B",
    });
  });

  test.each([
    [0, "none"],
    [1, "128B_atom_32B"],
    [2, "128B"],
    [4, "64B"],
    [6, "32B"],
  ])("tcgen05 layout %i is %s", (layout, swizzle) => {
    expect(decodeSmemDescriptor(tcgen05({ start: 0, layout }), "tcgen05").swizzle).toBe(swizzle);
  });

  test.each([
    [0, "none"],
    [1, "128B"],
    [2, "64B"],
    [3, "32B"],
  ])("wgmma layout %i is %s", (layout, swizzle) => {
    expect(decodeSmemDescriptor(wgmma({ start: 0, layout }), "wgmma").swizzle).toBe(swizzle);
  });

  test.each([3, 5, 7])("tcgen05 layout %i is reserved", (layout) => {
    expect(() => decodeSmemDescriptor(tcgen05({ start: 0, layout }), "tcgen05")).toThrow(/reserved/);
  });

  test("a tcgen05 descriptor without its version is refused", () => {
    expect(() => decodeSmemDescriptor(tcgen05({ start: 0, layout: 2, version: 0 }), "tcgen05")).toThrow(
      "Version (bits 46–48) must be 1 in a tcgen05 descriptor; found 0.",
    );
  });
});

describe("addresses", () => {
  const of = (parts: Parts) => decodeSmemDescriptor(tcgen05(parts), "tcgen05");

  test("K-major, 128B: eight rows of 128 bytes, permuted; the stride offset leads to the next eight", () => {
    const at = chunkAddresses(of({ start: 0x400, stride: 1024, layout: 2 }), "K");
    expect([0, 1, 2, 3].map((chunk) => at(0, chunk))).toEqual([0x400, 0x410, 0x420, 0x430]);
    expect([0, 1, 2, 3].map((chunk) => at(1, chunk))).toEqual([0x490, 0x480, 0x4b0, 0x4a0]);
    expect(at(8, 0)).toBe(0x800);
    expect(at(15, 7)).toBe(0x800 + 7 * 128 + (7 ^ 7) * 16);
  });

  test("K-major without a swizzle: core matrices of 8 rows × 16 bytes, by both offsets", () => {
    const at = chunkAddresses(of({ start: 0, leading: 128, stride: 512, layout: 0 }), "K");
    expect([at(0, 0), at(1, 0), at(7, 0), at(0, 1), at(8, 0), at(8, 3)]).toEqual([0, 16, 112, 128, 512, 896]);
  });

  test("MN-major, 64B: a line is one k; the leading offset leads to the next 64 bytes along M or N", () => {
    const at = chunkAddresses(of({ start: 0, leading: 4096, stride: 512, layout: 4 }), "MN");
    expect([at(0, 0), at(0, 3), at(0, 4), at(1, 0), at(8, 0)]).toEqual([0, 48, 4096, 64, 512]);
    expect(at(2, 0)).toBe(128 + 16);
  });

  test("an operand's chunks are all different bytes, and fill its tile", () => {
    const shape = { rows: 128, k: 64, bits: 16, major: "K" as const };
    const chunks = operandChunks(of({ start: 0, stride: 1024, layout: 2 }), shape);
    const addresses = chunks.map(({ address }) => address).sort((a, b) => a - b);
    expect(addresses).toEqual(Array.from({ length: 128 * 8 }, (_, i) => 16 * i));
  });

  test("atoms of 32 bytes need an MN-major operand", () => {
    expect(() => chunkAddresses(of({ start: 0, layout: 1 }), "K")).toThrow(/MN-major/);
  });

  test("the base offset moves the pattern with a tile that does not begin on its boundary", () => {
    const aligned = chunkAddresses(of({ start: 0, stride: 1024, layout: 2 }), "K");
    const shifted = chunkAddresses(of({ start: 128, stride: 1024, base: 1, layout: 2 }), "K");
    for (let row = 0; row < 8; row++)
      for (let chunk = 0; chunk < 8; chunk++) expect(shifted(row, chunk)).toBe(aligned(row, chunk) + 128);
  });
});

describe("remarks", () => {
  const of = (parts: Parts) => decodeSmemDescriptor(tcgen05(parts), "tcgen05");

  test("a step of 32 bytes along K inside an aligned tile is as it should be", () => {
    expect(smemDescriptorRemarks(of({ start: 0x420, stride: 1024, layout: 2 }), "K")).toEqual([]);
  });

  test("a start some rows into the pattern is remarked upon", () => {
    const [remark] = smemDescriptorRemarks(of({ start: 0x500, stride: 1024, layout: 2 }), "K");
    expect(remark).toContain("256 bytes into the 1024-byte pattern");
    expect(remark).toContain("rows 2 and on");
  });

  test("so is an offset of 0 without a swizzle", () => {
    expect(smemDescriptorRemarks(of({ start: 0, layout: 0, leading: 128 }), "K")).toHaveLength(1);
  });
});

test("the fields say what the offsets step over, by swizzle and major dimension", () => {
  const words = (layout: number, major: "K" | "MN") =>
    smemFields(tcgen05({ start: 0, layout }), "tcgen05", major)
      .filter(({ name }) => /LBO\)|SBO\)/.test(name))
      .map(({ meaning }) => meaning(64));
  expect(words(2, "K")).toEqual([
    "1,024 B, not used: K-major, with a swizzle",
    "1,024 B, to the next 8 rows",
  ]);
  expect(words(4, "MN")).toEqual([
    "1,024 B, to the next 64 B along M or N",
    "1,024 B, to the next 8 along K",
  ]);
  expect(words(0, "K")).toEqual(["1,024 B, to the next 16 B along K", "1,024 B, to the next 8 rows"]);
});
