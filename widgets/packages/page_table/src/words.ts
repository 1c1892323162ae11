// What the widget says about requests, pages, slots and moments. Units always.

import { format } from "@sglab/core";
import {
  type Access,
  CACHED,
  DUMMY,
  FREE,
  type Moment,
  type Page,
  type PageTableModel,
  type Request,
} from "./model";
import type { ArrayFacts } from "./protocol";

const { bytes, count, plural } = format;

export function describeRequestPage(
  model: PageTableModel,
  request: Request,
  number: number,
): string | undefined {
  if (number >= request.pages) return undefined;
  const { page_size: size } = model.pool;
  const page = model.pageOf(request, number);
  const first = number * size;
  const last = Math.min(request.seqLen, first + size) - 1;
  const lines = [`${request.name} · its page ${count(number)} of 0 … ${count(request.pages - 1)}`];
  lines.push(first === last ? `token ${count(first)}` : `tokens ${count(first)} … ${count(last)}`);
  if (page !== undefined)
    lines.push(`page ${count(page)} of the pool · ${slotRange(page, size, last - first + 1)}`);
  if (last - first + 1 < size) lines.push(`${plural(size - (last - first + 1), "slot")} at its end unused`);
  const holders = page === undefined ? 0 : (model.page(page)?.holders ?? 0);
  if (holders > 1) lines.push(`shared by ${plural(holders, "request")}`);
  return lines.join("\n");
}

function slotRange(page: number, size: number, used: number): string {
  const first = page * size;
  return used <= 1 ? `slot ${count(first)}` : `slots ${count(first)} … ${count(first + used - 1)}`;
}

export function describePage(model: PageTableModel, id: number): string | undefined {
  const page = model.page(id);
  if (!page) return undefined;
  const { page_size: size, slot_bytes } = model.pool;
  const kib = `${plural(size, "slot")}, ${bytes(size * slot_bytes)} of KV (${count(size * slot_bytes)} B)`;
  return `page ${count(id)} · ${kib}\n${pageStatus(model, id, page)}`;
}

export function pageStatus(model: PageTableModel, id: number, page: Page): string {
  const { page_size: size } = model.pool;
  if (page.owner === DUMMY)
    return "The dummy page: never handed out. Padded rows of a CUDA graph write here.";
  if (page.owner === FREE) return `free · number ${count(page.rank + 1)} in line to be handed out`;
  if (page.owner === CACHED)
    return "kept by the radix tree for a prefix it knows; evicted when room is needed";
  const owner = model.requests[page.owner];
  const first = page.number * size;
  const last = first + page.used - 1;
  const tokens = `${owner?.name}: ${first === last ? `token ${count(first)}` : `tokens ${count(first)} … ${count(last)}`}`;
  const used = `${count(page.used)} of ${plural(size, "slot")} used (${slotRange(id, size, page.used)})`;
  const shared = page.holders > 1 ? `\nshared by ${plural(page.holders, "request")}` : "";
  return `${tokens}\n${used}${shared}`;
}

/** One sentence for what happened between two positions of the transport. */
export function describeMoments(model: PageTableModel, from: number, to: number): string {
  const { requests, run, programEnds } = model;
  if (to === 0 && requests.length === 0)
    return `No request is being served, so ${run.kernel} has nothing to do.${model.source.live ? " Allocate one above." : ""}`;
  if (to === 0)
    return run.threads
      ? `${run.kernel} has not begun: it will run ${plural(requests.length, "CTA")}, one per request (Triton: programs).`
      : `${run.kernel} has not begun: it will run ${plural(requests.length, "program")}, one per request.`;
  const last = model.moment(to - 1);
  const first = model.moment(from);
  if (!last || !first)
    return model.source.connection === "lost"
      ? "This part of the trace was not read before Python was gone."
      : "Reading the trace…";
  const kind = run.threads ? "CTA" : "Program";
  const who = `${kind} ${last.program} (${requests[last.program]?.name ?? "?"})`;
  if (to - from <= 1) return `${who}${oneMoment(model, last)}`;
  const begun = last.program ? (programEnds[last.program - 1] as number) : 0;
  if (from < begun) return `${kind}s ${first.program} to ${last.program}: ${plural(to - from, "step")}.`;
  if (from === begun) return `${who} ran to its end. ${inOneGo(model, last)}`;
  return `${who}: ${plural(to - from, "element")} of a vector step. ${inOneGo(model, last, first)}`;
}

function oneMoment(model: PageTableModel, { lane, read, write, writer }: Moment): string {
  const { page_size: size } = model.pool;
  if (!read)
    return write
      ? `, ${laneName(model, lane)}, wrote ${write.value} to ${named(model, write)}.`
      : ": no access.";
  if (!write) return ` read ${named(model, read)} = ${count(read.value)}${meaning(read.array)}.`;
  const became =
    model.kernel === "flashmla"
      ? `${count(read.value)} ÷ ${size} = page ${count(write.value)}`
      : "it unchanged";
  const who = writer === lane ? "" : `${laneName(model, writer)} `;
  return `, ${laneName(model, lane)}, read ${named(model, read)} = slot ${count(read.value)} and ${who}wrote ${became} to ${named(model, write)}.`;
}

/** Which step wrote an entry of the output, and which CTA and lane; undefined while that is on its way. */
export function writerOf(
  model: PageTableModel,
  array: ArrayFacts,
  row: number,
  column: number,
): { step: number; sentence: string } | undefined {
  const step = model.entry(array, row, column, ".touched_at");
  const moment = step ? model.moment(step - 1) : undefined;
  if (!step || !moment) return undefined;
  const lane = laneName(model, moment.writer);
  const who = `${model.run.threads ? "CTA" : "program"} ${moment.program}, ${lane}`;
  return { step, sentence: `${who} writes it in step ${count(step)}` };
}

/** Of a compiled kernel, the warp as well. */
function laneName({ run }: PageTableModel, lane: number): string {
  return run.threads ? `warp ${lane >> 5} lane ${lane & 31}` : `lane ${lane}`;
}

/** What a vector step did, by its last lane and, where it is known, its first. */
function inOneGo(model: PageTableModel, last: Moment, first?: Moment): string {
  if (!last.read || !last.write) return "";
  return `It read ${span(model, last.read, first?.read)} and wrote ${span(model, last.write, first?.write)}.`;
}

/** "kv_indices[0 … 63]": from one access to another. */
function span(model: PageTableModel, to: Access, from?: Access): string {
  const start = from?.column ?? 0;
  const columns = start === to.column ? count(to.column) : `${count(start)} … ${count(to.column)}`;
  return named(model, to, columns);
}

/** "kv_indptr[2]", "req_to_token[1, 64]"; `columns` may name several. */
function named(model: PageTableModel, { array, row, column }: Access, columns = String(column)): string {
  const matrix = model.run.arrays.find((each) => each.name === array)?.shape.length === 2;
  return matrix ? `${array}[${row}, ${columns}]` : `${array}[${columns}]`;
}

function meaning(array: string): string {
  if (array === "seq_lens") return " tokens";
  if (array === "req_pool_indices") return ", its row of req_to_token";
  if (array === "kv_indptr") return ", where its entries begin in kv_indices";
  return "";
}
