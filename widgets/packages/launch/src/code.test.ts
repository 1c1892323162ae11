import { expect, test } from "vitest";
import { decodeCode, placeText } from "./code";

const TABLE = {
  pc: [0, 2, 5],
  line: [11, 12, 13],
  text: ["mov;", "add;", "sub;"],
  opcode: [0, 1, 1],
  kind: [0, 1, 1],
  chain: [1, 1, -1],
  opcodes: ["mov.u32", "add.s32"],
  kinds: ["move", "integer"],
  files: ["/src/kernels/mla.cu", "helper.cuh"],
  chains: [
    [],
    [
      [1, 7],
      [0, 30],
    ],
  ],
};
const code = decodeCode(new TextEncoder().encode(JSON.stringify(TABLE)));

test("an instruction is found by its pc, with the lines at which its function was inlined", () => {
  expect(code.pcs).toEqual([0, 2, 5]);
  expect(code.at(2)).toEqual({
    pc: 2,
    ptxLine: 12,
    text: "add;",
    opcode: "add.s32",
    kind: "integer",
    chain: [
      { file: "helper.cuh", line: 7 },
      { file: "/src/kernels/mla.cu", line: 30 },
    ],
  });
  expect(code.at(5).chain).toEqual([]);
});

test("instructions of one source line share a number; without a source each PTX line has its own", () => {
  const numbers = code.lineNumbers();
  expect(numbers).toHaveLength(6);
  expect(numbers[0]).toBe(numbers[2]);
  expect(numbers[5]).not.toBe(numbers[0]);
});

test("a place is named by its file, not by its folders", () => {
  expect(placeText({ file: "/src/kernels/mla.cu", line: 30 })).toBe("mla.cu:30");
});

test("instructions that wait for operations are distinguished from those that issue or commit them", () => {
  const opcodes = [
    "cp.async.wait_group",
    "cp.async.wait_all",
    "cp.async.bulk.wait_group.read",
    "wgmma.wait_group.sync.aligned",
    "tcgen05.wait::ld.sync.aligned",
    "cp.async.commit_group",
    "cp.async.cg.shared.global",
    "mbarrier.try_wait.parity.shared::cta.b64",
    "griddepcontrol.wait",
  ];
  const pc = opcodes.map((_, i) => i);
  const table = { ...TABLE, pc, line: pc, text: opcodes, opcode: pc, kind: pc.map(() => 0), opcodes };
  const waits = decodeCode(new TextEncoder().encode(JSON.stringify(table))).operationWaits();
  expect([...waits]).toEqual([0, 1, 2, 3, 4]);
});
