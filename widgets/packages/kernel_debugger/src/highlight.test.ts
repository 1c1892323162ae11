import { describe, expect, test } from "vitest";
import { linesWithCode } from "./fold";
import { type Language, type LineState, pieces } from "./highlight";
import { maskText, sharedAddress } from "./words";

const kinds = (line: string, language: Language, before: LineState = "") =>
  Object.fromEntries(
    pieces(line, language, before)
      .pieces.filter(({ kind }) => kind)
      .map(({ text, kind }) => [text, kind]),
  );

describe("lines of code", () => {
  test("PTX: registers, directives, opcodes, labels, numbers", () => {
    expect(kinds("$L__BB0_2: ld.shared.b32 %r1, [%rd2+16]; // a tile", "ptx")).toEqual({
      $L__BB0_2: "name",
      "ld.shared.b32": "keyword",
      "%r1": "register",
      "%rd2": "register",
      "16": "number",
      "// a tile": "comment",
    });
    expect(kinds(".reg .b64 %rd<3>;", "ptx")).toMatchObject({ ".reg": "directive", ".b64": "directive" });
  });

  test("CUDA: keywords, calls, strings, comments that continue", () => {
    expect(kinds('__shared__ float s[128]; wait("full", 0x1fu);', "cuda")).toEqual({
      __shared__: "keyword",
      float: "keyword",
      "128": "number",
      wait: "name",
      '"full"': "string",
      "0x1fu": "number",
    });
    const open = pieces("int a; /* until", "cuda", "");
    expect(open.after).toBe("*/");
    expect(pieces("still */ int b;", "cuda", open.after).pieces[0]).toEqual({
      text: "still */",
      kind: "comment",
    });
  });

  test("Python: docstrings over lines", () => {
    const open = pieces('def f(x): """begins', "python", "");
    expect(open.after).toBe('"""');
    expect(pieces("in it", "python", open.after)).toEqual({
      pieces: [{ text: "in it", kind: "string" }],
      after: '"""',
    });
    expect(pieces('ends""" + 1', "python", '"""').after).toBe("");
  });

  test.each([
    ["ptx", '@%p1 bra $L__BB0_3; // "x" .reg %r1'],
    ["cuda", "a/*b*/c 'x' \"y\\\"z\" #pragma unroll 1'000"],
    ["python", "@triton.jit # x = '''y'''"],
    ["python", "s = '''a''' + \"b\" if not None else 0x1f"],
  ] as const)("pieces of %s put together are the line", (language, line) => {
    expect(
      pieces(line, language, "")
        .pieces.map(({ text }) => text)
        .join(""),
    ).toBe(line);
  });
});

test("lines with code keep their surroundings", () => {
  const shown = linesWithCode(
    20,
    (line) => line === 5 || line === 6 || line === 20,
    (line) => line === 12,
    1,
  );
  expect(Array.from(shown)).toEqual([4, 5, 6, 7, 12, 19, 20]);
});

test.each([
  [-1, "all lanes"],
  [1, "lane 0"],
  [1 << 31, "lane 31"],
  [0xfffffffe, "lanes 1–31"],
  [0xff00, "lanes 8–15"],
  [0b101, "lanes 0x00000005"],
])("mask %i is %s", (mask, text) => expect(maskText(mask)).toBe(text));

test("a shared::cluster address names the rank unless it is one's own", () => {
  expect(sharedAddress(0x430)).toBe("smem+0x430");
  expect(sharedAddress(0x01000430, 1)).toBe("smem+0x430");
  expect(sharedAddress(0x01000430, 0)).toBe("rank 1 smem+0x430");
});
