import { expect, test } from "vitest";
import type { CodeModel } from "./code_model";
import { Links } from "./links";

// PTX lines 20 and 21 are of line 5 of file 0; line 22 of line 90 of file 1, inlined at line 7 of file 0.
const CHAINS: Record<number, { file: number; line: number }[]> = {
  20: [{ file: 0, line: 5 }],
  21: [{ file: 0, line: 5 }],
  22: [
    { file: 1, line: 90 },
    { file: 0, line: 7 },
  ],
};
const code = {
  ptxOf: (place: { file: number; line: number }) =>
    Object.keys(CHAINS)
      .map(Number)
      .filter((line) => CHAINS[line]?.some((each) => each.file === place.file && each.line === place.line)),
  pcAt: (line: number) => (line in CHAINS ? line : undefined),
  chain: (pc: number) => CHAINS[pc] ?? [],
} as unknown as CodeModel;

function linked(side: "source" | "ptx", line: number, file = 0): { source: number[]; ptx: number[] } {
  const links = new Links(code);
  links.link({ side, line }, file);
  return { source: [...links.source], ptx: [...links.ptx] };
}

test("a source line is linked with its PTX, one without code with nothing", () => {
  expect(linked("source", 5)).toEqual({ source: [5], ptx: [20, 21] });
  expect(linked("source", 6)).toEqual({ source: [], ptx: [] });
});

test("a PTX line is linked with the lines of the file that is shown, also where it was inlined", () => {
  expect(linked("ptx", 22)).toEqual({ source: [7], ptx: [22] });
  expect(linked("ptx", 22, 1)).toEqual({ source: [90], ptx: [22] });
  expect(linked("ptx", 23)).toEqual({ source: [], ptx: [] });
});

test("what was linked before is not linked any more", () => {
  const links = new Links(code);
  links.link({ side: "source", line: 5 }, 0);
  links.link(undefined, 0);
  expect([links.source.size, links.ptx.size]).toEqual([0, 0]);
});
