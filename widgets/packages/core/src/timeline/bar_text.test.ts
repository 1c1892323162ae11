import { expect, test } from "vitest";
import { barText } from "./bar_text";

const LOAD = "ld.global.f32 \t%f37, [%rd8];";

test.each([
  [40, "ld.global.f32 %f37, [%rd8]"],
  [26, "ld.global.f32 %f37, [%rd8]"],
  [25, "ld.global.f32 %f37…"],
  [18, "ld.global.f32…"],
  [12, "ld.global…"],
  [5, ""], // a half word would be another
])("in %i columns an instruction is cut behind a word, and says so", (columns, shown) => {
  expect(barText(LOAD, columns)).toBe(shown);
});

test("an opcode's first word alone stands for it", () => {
  expect(barText("mul.wide.u32 %rd1, %r2, 4;", 4)).toBe("mul…");
  expect(barText("2 × copy", 8)).toBe("2 × copy");
});
