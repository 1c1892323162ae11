import { expect, test } from "vitest";
import { address, bytes, count, duration, listed, percent, plural } from "./format";

test("counts are grouped, and agree with their noun", () => {
  expect(count(14823)).toBe("14,823");
  expect([0, 1, 3000].map((value) => plural(value, "page"))).toEqual(["0 pages", "1 page", "3,000 pages"]);
  expect(plural(2, "pass", "passes")).toBe("2 passes");
});

test.each([
  [0, "0 B"],
  [1023, "1023 B"],
  [1024, "1.0 KiB"],
  [1536, "1.5 KiB"],
  [102400, "100 KiB"],
  [3 * 2 ** 30, "3.0 GiB"],
  [2 ** 60, "1048576 TiB"],
])("%i bytes are %s", (value, text) => expect(bytes(value)).toBe(text));

test.each([
  [0, "0 %"],
  [0.034, "3.4 %"],
  [0.125, "13 %"],
  [1, "100 %"],
  [0.994, "99 %"],
  [0.9961, "99.6 %"],
  [0.9997, "99.9 %"],
  [1 - 1e-9, "100 %"],
])("a share of %f is %s", (share, text) => expect(percent(share)).toBe(text));

test.each([
  [999, "999 ns"],
  [1250, "1.25 µs"],
  [2.5e6, "2.50 ms"],
  [7.25e9, "7.25 s"],
])("%f ns are %s", (value, text) => expect(duration(value)).toBe(text));

test("addresses name their space", () => expect(address("smem", 0x1a00)).toBe("smem+0x1a00"));

test("several are listed with one and", () => {
  expect([[], [0], [0, 1], ["a", "b", "c"]].map(listed)).toEqual(["", "0", "0 and 1", "a, b and c"]);
});
