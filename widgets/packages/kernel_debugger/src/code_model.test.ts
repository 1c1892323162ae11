import { expect, test } from "vitest";
import { CodeModel } from "./code_model";
import type { DebuggerSource } from "./protocol";

// Five instructions: pc 0 is the decoder's own, 1 and 2 are of kernel.cu:5, pc 3 of a library's line 90 inlined at
// kernel.cu:7, pc 4 of no source line.
const TENSORS: Record<string, number[]> = {
  "code.ptx_line": [0, 20, 21, 22, 23],
  "code.kind": [0, 0, 1, 0, 0],
  "code.chain": [0, 1, 1, 2, 0],
  "chain.start": [0, 0, 1, 3],
  "chain.place": [0, 5, 1, 90, 0, 7],
};
const FILES = [
  { name: "kernel.cu", available: true, library: false },
  { name: "barrier.cuh", available: false, library: true },
];

function read(files = FILES): Promise<CodeModel> {
  const source = {
    get: () => ({ files, kinds: ["", "wait"], events: ["wait"] }),
    slice: async (name: string) => ({ data: Int32Array.from(TENSORS[name] as number[]) }),
  };
  return CodeModel.read(source as unknown as DebuggerSource);
}

test("a source line leads to its PTX lines and each of them back to its instruction", async () => {
  const code = await read();
  expect(code.ptxOf({ file: 0, line: 5 })).toEqual([20, 21]);
  expect([20, 21, 22, 24].map((line) => code.pcAt(line))).toEqual([1, 2, 3, undefined]);
  expect([code.hasCode(0, 5), code.hasCode(0, 6), code.hasCode(3, 5)]).toEqual([true, false, false]);
});

test("a line that calls a function has the PTX of what was inlined there", async () => {
  const code = await read();
  expect(code.chain(3)).toEqual([
    { file: 1, line: 90 },
    { file: 0, line: 7 },
  ]);
  expect(code.ptxOf({ file: 0, line: 7 })).toEqual([22]);
  expect(code.ptxOf({ file: 1, line: 90 })).toEqual([22]);
});

test("a place in a library is called by the line that called it, one without source by its PTX", async () => {
  const code = await read();
  expect([1, 3, 4].map((pc) => code.placeName(pc))).toEqual(["kernel.cu:5", "kernel.cu:7", "PTX line 23"]);
  expect([1, 4].map((pc) => code.shortPlaceName(pc))).toEqual(["line 5", "PTX line 23"]);
});

test("instructions know whether they are events; source is there where a file is", async () => {
  const code = await read();
  expect([1, 2].map((pc) => code.isEvent(pc))).toEqual([false, true]);
  expect(code.hasSource).toBe(true);
  expect((await read(FILES.slice(1))).hasSource).toBe(false);
});
