import { describe, expect, test } from "vitest";
import { CACHED, DUMMY, FREE, PageTableModel } from "./model";
import { beginOf, placeOf } from "./places";
import type { PageTableSource } from "./protocol";
import { describeMoments, describePage, describeRequestPage, pageStatus } from "./words";

// Two requests over pages of 4 slots: R0 has 6 tokens on pages 2 and 1, R1 has 3 tokens on page 2, which they share.
const TENSORS: Record<string, { shape: number[]; data: number[] }> = {
  requests: { shape: [2, 5], data: [5, 6, 2, 4, 2, 3, 3, 1, 0, 3] },
  request_indptr: { shape: [3], data: [0, 2, 3] },
  request_pages: { shape: [3], data: [2, 1, 2] },
  // owner, holders, number within the owner, used, rank in the free list
  pages: {
    shape: [5, 5],
    data: [DUMMY, 0, 0, 0, -1, 0, 1, 1, 2, -1, 0, 2, 0, 4, -1, FREE, 0, 0, 0, 0, CACHED, 0, 0, 4, -1],
  },
  "flashinfer.step_ends": { shape: [2], data: [1, 2] },
  "flashinfer.program_ends": { shape: [2], data: [1, 2] },
  // program, lane, read (line, array, row, column, value), write (the same), the lane that wrote
  "flashinfer.moments": {
    shape: [2, 13],
    data: [0, 3, 9, 0, 5, 4, 8, 10, 1, 0, 4, 8, 3, 1, 0, 7, 2, 0, 1, 3, 0, -1, 0, 0, 0, -1],
  },
};
const TRAITS: Record<string, unknown> = {
  revision: 1,
  kernel: "flashinfer",
  names: ["R0", "R7"],
  changed_pages: [1],
  pool: { page_size: 4, slot_bytes: 256, pages: 5 },
  runs: {
    flashinfer: {
      kernel: "create_flashinfer_kv_indices",
      threads: false,
      moments: 2,
      tensors: ["req_to_token", "kv_indices", "seq_lens"],
      arrays: [
        { name: "req_to_token", dtype: "int32", shape: [8, 16] },
        { name: "kv_indices", dtype: "int32", shape: [9] },
      ],
    },
  },
};

async function loaded(): Promise<PageTableModel> {
  const source = {
    live: true,
    connection: "open",
    get: (name: string) => TRAITS[name],
    onChange: () => {},
    slice: async (name: string, from: number, to: number) => {
      const { shape, data } = TENSORS[name] as { shape: number[]; data: number[] };
      const width = shape[1] ?? 1;
      const rows = data.slice(from * width, to * width);
      return { shape: [rows.length / width, ...shape.slice(1)], data: new Int32Array(rows) };
    },
  } as unknown as PageTableSource;
  const model = new PageTableModel(source);
  await model.load();
  // what is looked at arrives after it was asked for
  model.page(0);
  model.pageOf(model.requests[0] as PageTableModel["requests"][number], 0);
  await new Promise((resolve) => setTimeout(resolve));
  return model;
}

describe("the model", () => {
  test("requests have their rows, lengths and the colour of their number", async () => {
    const { requests, ready } = await loaded();
    expect(ready).toBe(true);
    expect(requests.map(({ name, hue, row, seqLen, pages }) => [name, hue, row, seqLen, pages])).toEqual([
      ["R0", 0, 5, 6, 2],
      ["R7", 7, 3, 3, 1],
    ]);
  });

  test("a row of req_to_token leads to its request, another one to none", async () => {
    const model = await loaded();
    expect(model.ownerOfRow(3)?.name).toBe("R7");
    expect(model.ownerOfRow(4)).toBeUndefined();
  });

  test("a moment's access says the page that it deals with", async () => {
    const model = await loaded();
    const moment = model.moment(0);
    expect(moment?.read).toEqual({ line: 9, array: "req_to_token", row: 5, column: 4, value: 8 });
    expect(moment && [model.pageNumberOfMoment(moment), model.pageOfMoment(moment)]).toEqual([1, 2]);
    const other = model.moment(1);
    expect(other?.write).toBeUndefined();
    expect(other && model.pageOfMoment(other)).toBeUndefined();
  });
});

describe("places", () => {
  test("tokens of a request lie in its row, in its stretch of kv_indices, and in pages of block_kv_indices", async () => {
    const model = await loaded();
    const selected = { request: 0, token: 3, tokens: 10 };
    expect(placeOf(model, "req_to_token", selected)).toEqual({ row: 5, first: 3, last: 5 });
    expect(placeOf(model, "block_kv_indices", selected)).toEqual({ row: 0, first: 0, last: 1 });
    expect(placeOf(model, "kv_indices", { request: 1, token: 1 })).toEqual({ row: 0, first: 7, last: 7 });
    expect(beginOf(model, model.requests[1] as PageTableModel["requests"][number])).toBe(6);
  });

  test("what is not selected, or past the request's end, has no place", async () => {
    const model = await loaded();
    expect(placeOf(model, "req_to_token", {})).toBeUndefined();
    expect(placeOf(model, "req_to_token", { request: 1, token: 3 })).toBeUndefined();
    expect(placeOf(model, "seq_lens", { request: 1, token: 1 })).toBeUndefined();
  });
});

describe("words", () => {
  test("a request's last page says its tokens, its slots and what is unused", async () => {
    const model = await loaded();
    const [first, second] = model.requests as [
      PageTableModel["requests"][number],
      PageTableModel["requests"][number],
    ];
    expect(describeRequestPage(model, first, 1)?.split("\n")).toEqual([
      "R0 · its page 1 of 0 … 1",
      "tokens 4 … 5",
      "page 1 of the pool · slots 4 … 5",
      "2 slots at its end unused",
    ]);
    expect(describeRequestPage(model, second, 0)).toContain("shared by 2 requests");
    expect(describeRequestPage(model, second, 1)).toBeUndefined();
  });

  test("each kind of page says what it is", async () => {
    const model = await loaded();
    const status = (id: number) =>
      pageStatus(model, id, model.page(id) as NonNullable<ReturnType<typeof model.page>>);
    expect(status(0)).toContain("never handed out");
    expect(status(1)).toBe("R0: tokens 4 … 5\n2 of 4 slots used (slots 4 … 5)");
    expect(status(2)).toContain("shared by 2 requests");
    expect(status(3)).toBe("free · number 1 in line to be handed out");
    expect(status(4)).toContain("kept by the radix tree");
    expect(describePage(model, 3)).toContain("4 slots, 1.0 KiB of KV (1,024 B)");
  });

  test("steps are sentences: none, one, several programs", async () => {
    const model = await loaded();
    expect(describeMoments(model, 0, 0)).toContain("it will run 2 programs, one per request");
    expect(describeMoments(model, 0, 1)).toBe(
      "Program 0 (R0), lane 3, read req_to_token[5, 4] = slot 8 and wrote it unchanged to kv_indices[4].",
    );
    expect(describeMoments(model, 1, 2)).toBe("Program 1 (R7) read seq_lens[1] = 3 tokens.");
    expect(describeMoments(model, 0, 2)).toBe("Programs 0 to 1: 2 steps.");
  });
});
