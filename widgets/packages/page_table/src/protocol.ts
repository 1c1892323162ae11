// What crosses between the page and sglab/widgets/page_table.py.

import {
  COMMON,
  command,
  dict,
  int,
  list,
  none,
  optional,
  protocol,
  type Source,
  tensor,
  text,
} from "@sglab/protocol";

export type Kernel = "flashmla" | "flashinfer";

export interface PoolSummary {
  page_size: number;
  slot_bytes: number;
  pages: number;
  free: number;
  cached: number;
  held: number;
  shared: number;
  unused_slots: number;
  adjacent: number;
  largest_free_run: number;
}

export interface ArrayFacts {
  name: string;
  dtype: string;
  shape: number[];
}

export interface RunFacts {
  kernel: string;
  /** Lanes are threads of a compiled kernel's CTAs; else elements of a vector. */
  threads: boolean;
  moments: number;
  output: string;
  tensors: string[];
  arrays: ArrayFacts[];
  source: { file: string; first_line: number; text: string };
}

export type Action = "allocate" | "extend" | "share" | "free" | "evict";

export interface EditAnswer {
  message: string;
  request: number | null;
  /** Of the edit, for `undo`. */
  number: number;
}

/** Per run of an index kernel: its arrays, which step touched each entry, and what it did, moment by moment. */
export const PAGE_TABLE = protocol("page_table", 2, COMMON, {
  traits: {
    kernel: text<Kernel>(),
    names: list<string>(),
    pool: dict<PoolSummary>(),
    runs: dict<Record<Kernel, RunFacts>>(),
    changed_pages: list<number>(),
    stale: int(),
  },
  commands: {
    catch_up: command({}, none()),
    show_kernel: command({ kernel: text<Kernel>() }, none()),
    edit: command(
      { action: text<Action>(), request: optional(int()), tokens: optional(int()) },
      dict<EditAnswer>(),
    ),
    undo: command({ number: int() }, dict<EditAnswer>()),
  },
  tensors: {
    requests: tensor("int32", ["requests", 5]),
    request_pages: tensor("int32", ["pages"]),
    request_indptr: tensor("int32", ["requests + 1"]),
    pages: tensor("int32", ["pages", 5]),
    "{kernel}.moments": tensor("int32", ["moments", 13]),
    "{kernel}.step_ends": tensor("int32", ["steps"]),
    "{kernel}.program_ends": tensor("int32", ["programs"]),
    "{kernel}.{array}": tensor(null, null),
    "{kernel}.{array}.before": tensor(null, null),
    "{kernel}.{array}.touched_at": tensor("int32", null),
  },
});

export type PageTableSource = Source<typeof PAGE_TABLE>;
