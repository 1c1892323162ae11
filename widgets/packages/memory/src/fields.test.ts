import { describe, expect, test } from "vitest";
import { hex, parseHex, readField, writeField } from "./fields";

const START = { name: "start address", low: 0, width: 14, unit: 16, meaning: String };
const LAYOUT = { name: "swizzle", low: 61, width: 3, meaning: String };

test("what is written is read again, and nothing else changes", () => {
  let bits = 0xffff_ffff_ffff_ffffn;
  for (const field of [START, LAYOUT])
    for (let raw = 0; raw < 2 ** field.width; raw++) {
      const before = bits;
      bits = writeField(bits, field, raw);
      expect(readField(bits, field)).toBe(raw);
      const mask = ((1n << BigInt(field.width)) - 1n) << BigInt(field.low);
      expect(bits & ~mask).toBe(before & ~mask);
    }
});

test("values that do not fit are refused, in bytes where the field holds bytes", () => {
  expect(() => writeField(0n, LAYOUT, 8)).toThrow("swizzle has 3 bits: it takes 0 to 7.");
  expect(() => writeField(0n, START, 1.5)).toThrow("must be a multiple of 16 from 0 to 262128 bytes");
  expect(() => writeField(0n, START, -1)).toThrow();
});

describe("hexadecimal numbers", () => {
  test.each([
    ["0x40", 0x40n],
    ["FF", 0xffn],
    [" 0x4000_4040 0001_0040 ", 0x4000404000010040n],
  ])("%s", (text, value) => expect(parseHex(text, 64)).toBe(value));

  test("are refused in sentences", () => {
    expect(() => parseHex("0xgg", 64)).toThrow("“0xgg” is not a hexadecimal number.");
    expect(() => parseHex("", 64)).toThrow("not a hexadecimal number");
    expect(() => parseHex("1_0000_0000", 32)).toThrow("more than 32 bits");
  });

  test("are written with as many digits as asked for", () => {
    expect(hex(255n)).toBe("0xff");
    expect(hex(255, 8)).toBe("0x000000ff");
  });
});
