import { describe, expect, test } from "vitest";
import {
  decodeInstructionDescriptor,
  instructionFields,
  MMA_KINDS,
  shapeProblem,
  storedBits,
} from "./instruction_descriptor";

/** kind::f16, A and B bf16, D f32, both K-major, M 128, N 128: fields of the PTX ISA's table. */
const BF16_128_128 = 0x08200490;

describe("decoding", () => {
  test("the descriptor of a bf16 product", () => {
    expect(decodeInstructionDescriptor(BF16_128_128, "f16")).toEqual({
      m: 128,
      n: 128,
      k: 16,
      aType: "bf16",
      bType: "bf16",
      dType: "f32",
      aMajor: "K",
      bMajor: "K",
      negateA: false,
      negateB: false,
      saturate: false,
      sparse: false,
    });
  });

  test("single bits: transposed, negated, sparse with twice the K", () => {
    const with_ = (bit: number) => decodeInstructionDescriptor(BF16_128_128 | (1 << bit), "f16");
    expect(with_(15).aMajor).toBe("MN");
    expect(with_(16).bMajor).toBe("MN");
    expect(with_(13).negateA).toBe(true);
    expect(with_(2)).toMatchObject({ sparse: true, k: 32 });
  });

  test.each([
    [BF16_128_128 | (2 << 7), "f16", "type of A"],
    [BF16_128_128 | 8, "f16", "saturation"],
    [(2 << 4) | (1 << 13), "i8", "negated"],
    [(1 << 4) | (5 << 7) | (1 << 15), "f8f6f4", "fewer than 8 bits"],
    [1 << 31, "mxf4", "type of A"],
  ] as const)("0x%i of kind::%s is refused", (bits, kind, why) => {
    expect(() => decodeInstructionDescriptor(bits, kind)).toThrow(why);
  });
});

describe("shapes", () => {
  const shape = (m: number, n: number) => ({ ...decodeInstructionDescriptor(BF16_128_128, "f16"), m, n });

  test.each([
    [64, 8, 1, ""],
    [128, 256, 1, ""],
    [256, 16, 2, ""],
    [256, 16, 1, "M = 256; expected 64 or 128 with cta_group::1"],
    [64, 16, 2, "M = 64; expected 128 or 256 with cta_group::2"],
    [128, 264, 1, "N = 264; expected 8 to 256"],
    [128, 24, 2, "N = 24; expected a multiple of 16 with cta_group::2"],
  ] as const)("%i × %i with cta_group::%i", (m, n, group, problem) => {
    expect(shapeProblem(shape(m, n), "f16", group)).toBe(problem);
  });
});

test("every kind stores its elements in 4, 8, 16 or 32 bits", () => {
  expect(
    MMA_KINDS.map((kind) => storedBits(kind === "f16" ? "f16" : kind === "tf32" ? "tf32" : "e2m1", kind)),
  ).toEqual([16, 32, 8, 8, 8, 4, 4]);
});

test.each(MMA_KINDS)("the fields of kind::%s do not overlap and fit 32 bits", (kind) => {
  const taken = new Set<number>();
  for (const { low, width } of instructionFields(kind))
    for (let bit = low; bit < low + width; bit++) {
      expect(taken.has(bit)).toBe(false);
      expect(bit).toBeLessThan(32);
      taken.add(bit);
    }
});
