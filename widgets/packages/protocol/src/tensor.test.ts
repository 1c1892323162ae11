import { describe, expect, test } from "vitest";
import { decodeTensor, float16, isWireTensor, sliceTensor } from "./tensor";

const bytes = (...values: number[]) => Uint8Array.from(values).buffer;

describe("float16", () => {
  test.each([
    [0x0000, 0],
    [0x3c00, 1],
    [0xbc00, -1],
    [0x3555, 0.333251953125],
    [0x7bff, 65504],
    [0x0400, 2 ** -14],
    [0x03ff, 1023 * 2 ** -24],
    [0x0001, 2 ** -24],
    [0x7c00, Number.POSITIVE_INFINITY],
    [0xfc00, Number.NEGATIVE_INFINITY],
  ])("0x%s stands for %s", (bits, value) => expect(float16(bits)).toBe(value));

  test("keeps the sign of zero, and has NaN", () => {
    expect(Object.is(float16(0x8000), -0)).toBe(true);
    expect(float16(0x7e00)).toBeNaN();
  });

  test("rises with its bits from 0 to infinity, subnormal numbers included", () => {
    for (let bits = 1; bits <= 0x7c00; bits++) expect(float16(bits)).toBeGreaterThan(float16(bits - 1));
  });
});

describe("decodeTensor", () => {
  test("reads every dtype little-endian", () => {
    const read = (dtype: Parameters<typeof decodeTensor>[0]["dtype"], buffer: ArrayBuffer, count: number) =>
      Array.from(decodeTensor({ dtype, shape: [count], buffer }).data);
    expect(read("bool", bytes(1, 0), 2)).toEqual([1, 0]);
    expect(read("int8", bytes(0xff, 0x7f), 2)).toEqual([-1, 127]);
    expect(read("int16", bytes(0x34, 0x12), 1)).toEqual([0x1234]);
    expect(read("int32", bytes(0xfe, 0xff, 0xff, 0xff), 1)).toEqual([-2]);
    expect(read("int64", bytes(0, 0, 0, 0, 1, 0, 0, 0), 1)).toEqual([2 ** 32]);
    expect(read("float16", bytes(0x00, 0x3c, 0x00, 0xc0), 2)).toEqual([1, -2]);
    expect(read("bfloat16", bytes(0x80, 0x3f, 0x49, 0x40), 2)).toEqual([1, 3.140625]);
    expect(read("float32", bytes(0, 0, 0xc0, 0x3f), 1)).toEqual([1.5]);
    expect(read("float64", bytes(0, 0, 0, 0, 0, 0, 0xf8, 0x3f), 1)).toEqual([1.5]);
  });

  test("takes a buffer that starts anywhere, as a message's do", () => {
    const message = Uint8Array.of(9, 9, 9, 1, 0, 0, 0, 2, 0, 0, 0);
    const tensor = decodeTensor({ dtype: "int32", shape: [2], buffer: new DataView(message.buffer, 3) });
    expect(Array.from(tensor.data)).toEqual([1, 2]);
  });

  test("refuses bytes that do not fit the shape, and says both", () => {
    expect(() => decodeTensor({ dtype: "int32", shape: [2, 3], buffer: bytes(1, 2) })).toThrow(
      "A int32 tensor of shape [2,3] needs 24 bytes; 2 arrived.",
    );
  });
});

test("what looks like a tensor in JSON is one only with a known dtype, a shape and a buffer", () => {
  expect(isWireTensor({ dtype: "int32", shape: [1], buffer: 0 })).toBe(true);
  expect(isWireTensor({ dtype: "complex64", shape: [1], buffer: 0 })).toBe(false);
  expect(isWireTensor({ dtype: "int32", shape: [1] })).toBe(false);
  expect(isWireTensor(null)).toBe(false);
});

test("slices are rows, clipped to what there is", () => {
  const tensor = {
    dtype: "int32",
    shape: [4, 2],
    data: Int32Array.of(0, 1, 10, 11, 20, 21, 30, 31),
  } as const;
  const rows = (start: number, stop: number) => sliceTensor(tensor, start, stop);
  expect(rows(1, 3)).toEqual({ dtype: "int32", shape: [2, 2], data: Int32Array.of(10, 11, 20, 21) });
  expect(rows(3, 99).shape).toEqual([1, 2]);
  expect(rows(-5, 1).data).toEqual(Int32Array.of(0, 1));
  expect(rows(3, 1).shape).toEqual([0, 2]);
});
