// What Python published, as the views read it. See sglab/widgets/page_table.py and sglab/workbench/recorders for the columns.

import { Emitter, TensorWindow } from "@sglab/core";
import type { Numbers, Tensor, TensorName } from "@sglab/protocol";
import { hueOf } from "./names";
import type { ArrayFacts, Kernel, PAGE_TABLE, PageTableSource, PoolSummary, RunFacts } from "./protocol";

export const FREE = -1;
export const CACHED = -2;
export const DUMMY = -3;

export interface Request {
  index: number;
  name: string;
  /** Which colour it has: the number in its name. */
  hue: number;
  /** Its row of req_to_token. */
  row: number;
  seqLen: number;
  pages: number;
  /** Leading tokens whose pages the radix tree owns. */
  cachedTokens: number;
  newTokens: number;
  /** Where its pages begin in `request_pages`. */
  start: number;
}

export interface Page {
  owner: number;
  holders: number;
  /** Its number within the owner. */
  number: number;
  used: number;
  /** Place in the free list, -1 where it is not free. */
  rank: number;
}

/** One access of a moment: which entry of which array, and its value. */
export interface Access {
  line: number;
  array: string;
  row: number;
  column: number;
  value: number;
}

export interface Moment {
  program: number;
  lane: number;
  read: Access | undefined;
  write: Access | undefined;
  /** The lane that wrote; -1 without a write. */
  writer: number;
}

const MOMENTS_AT_ONCE = 512;
const ROWS_AT_ONCE = 2048;

export class PageTableModel {
  /** Something that was looked at has arrived. */
  readonly arrived = new Emitter<void>();
  /** A new batch, pool or run is there. */
  readonly loaded = new Emitter<void>();
  readonly failed = new Emitter<unknown>();
  requests: Request[] = [];
  kernel!: Kernel;
  run!: RunFacts;
  pool!: PoolSummary;
  changedPages = new Set<number>();
  stepEnds: Numbers = new Int32Array();
  programEnds: Numbers = new Int32Array();
  #windows = new Map<string, TensorWindow>();
  #rowOwner = new Map<number, Request>();
  #loading = 0;
  #ready = false;

  constructor(readonly source: PageTableSource) {
    this.#takeTraits();
    source.onChange("revision", () => this.load());
  }

  /** Whether a batch has been read. */
  get ready(): boolean {
    return this.#ready;
  }

  /** Reads what is small; everything else is read as it is looked at. Until all of it is here, the old batch stays. */
  async load(): Promise<void> {
    this.#loading += 1;
    const turn = this.#loading;
    const kernel = this.source.get("kernel");
    const whole = <Name extends TensorName<typeof PAGE_TABLE>>(name: Name) =>
      this.source.slice(name, 0, Number.MAX_SAFE_INTEGER);
    try {
      const [requests, indptr, stepEnds, programEnds] = (await Promise.all([
        whole("requests"),
        whole("request_indptr"),
        whole(`${kernel}.step_ends`),
        whole(`${kernel}.program_ends`),
      ])) as [Tensor, Tensor, Tensor, Tensor];
      if (turn !== this.#loading) return;
      this.#takeTraits();
      this.#takeRequests(requests, indptr);
      this.stepEnds = stepEnds.data;
      this.programEnds = programEnds.data;
      this.#ready = true;
      this.#windows.delete(`${kernel}.moments`); // steps of the run before say nothing about this one
      if (this.run.moments) this.moment(0); // so that the first steps need no wait
      this.loaded.emit();
    } catch (error) {
      if (turn === this.#loading) this.failed.emit(error);
    }
  }

  #takeTraits(): void {
    this.kernel = this.source.get("kernel");
    this.run = this.source.get("runs")[this.kernel];
    this.pool = this.source.get("pool");
    this.changedPages = new Set(this.source.get("changed_pages"));
  }

  #takeRequests(table: Tensor, indptr: Tensor): void {
    const names = this.source.get("names");
    const width = table.shape[1] as number;
    const at = (row: number, column: number) => table.data[row * width + column] as number;
    this.requests = names.map((name, index) => ({
      index,
      name,
      hue: hueOf(name, index),
      row: at(index, 0),
      seqLen: at(index, 1),
      pages: at(index, 2),
      cachedTokens: at(index, 3),
      newTokens: at(index, 4),
      start: indptr.data[index] as number,
    }));
    this.#rowOwner = new Map(this.requests.map((request) => [request.row, request]));
  }

  /** The request whose slots are in a row of req_to_token. */
  ownerOfRow(row: number): Request | undefined {
    return this.#rowOwner.get(row);
  }

  #window(name: string, rows: number): TensorWindow {
    const known = this.#windows.get(name);
    if (known) return known;
    const made = new TensorWindow(
      this.source,
      name,
      rows,
      () => this.arrived.emit(),
      (error) => this.failed.emit(error),
    );
    this.#windows.set(name, made);
    return made;
  }

  pageOf(request: Request, number: number): number | undefined {
    return this.#window("request_pages", ROWS_AT_ONCE).value(request.start + number);
  }

  page(id: number): Page | undefined {
    const row = this.#window("pages", ROWS_AT_ONCE).row(id);
    if (!row) return undefined;
    const [owner, holders, number, used, rank] = row as unknown as [number, number, number, number, number];
    return { owner, holders, number, used, rank };
  }

  /** An entry of an array of the shown run; `part` is "" for its value, ".before" or ".touched_at". */
  entry(array: ArrayFacts, row: number, column: number, part = ""): number | undefined {
    const name = `${this.kernel}.${array.name}${part}`;
    if (array.shape.length < 2) return this.#window(name, ROWS_AT_ONCE).value(column);
    // A chunk of a matrix is about as many numbers as a chunk of a vector.
    const rows = Math.max(1, Math.floor((4 * ROWS_AT_ONCE) / Math.max(1, array.shape[1] as number)));
    return this.#window(name, rows).value(row, column);
  }

  /** Moment `number`, counted from 0, or undefined while it is on its way. */
  moment(number: number): Moment | undefined {
    const row = this.#window(`${this.kernel}.moments`, MOMENTS_AT_ONCE).row(number);
    if (!row) return undefined;
    return {
      program: row[0] as number,
      lane: row[1] as number,
      read: this.#access(row, 2),
      write: this.#access(row, 7),
      writer: row[12] as number,
    };
  }

  #access(row: Numbers, at: number): Access | undefined {
    const array = this.run.tensors[row[at + 1] as number];
    if (array === undefined) return undefined;
    return {
      line: row[at] as number,
      array,
      row: row[at + 2] as number,
      column: row[at + 3] as number,
      value: row[at + 4] as number,
    };
  }

  /** The page that a moment deals with: the one it read a slot of or wrote. */
  pageOfMoment(moment: Moment): number | undefined {
    if (moment.read?.array !== "req_to_token") return undefined;
    return Math.floor(moment.read.value / this.pool.page_size);
  }

  /** Which of its request's pages, counted from 0, a moment deals with. */
  pageNumberOfMoment(moment: Moment): number | undefined {
    if (moment.read?.array !== "req_to_token") return undefined;
    return Math.floor(moment.read.column / this.pool.page_size);
  }
}
