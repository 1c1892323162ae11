// Where the arrays of a run hold what is selected.

import type { Selection } from "@sglab/protocol";
import type { PageTableModel, Request } from "./model";

/** Neighbouring entries of one row, the last one included; the row of a vector is 0. */
export interface Place {
  row: number;
  first: number;
  last: number;
}

/** The entries of array `name` that represent the selected slot, page or tokens of a request. */
export function placeOf(model: PageTableModel, name: string, selection: Selection): Place | undefined {
  const { request: index, token, tokens = 1, slot } = selection;
  const request = model.requests[index ?? -1];
  if (!request || token === undefined || token >= request.seqLen) return undefined;
  const last = slot === undefined ? Math.min(request.seqLen, token + tokens) - 1 : token;
  const size = model.pool.page_size;
  if (name === "req_to_token") return { row: request.row, first: token, last };
  if (name === "block_kv_indices")
    return { row: request.index, first: Math.floor(token / size), last: Math.floor(last / size) };
  if (name !== "kv_indices") return undefined;
  const begin = beginOf(model, request);
  return { row: 0, first: begin + token, last: begin + last };
}

/** Where a request's entries begin in kv_indices. */
export function beginOf(model: PageTableModel, request: Request): number {
  return model.requests.slice(0, request.index).reduce((sum, { seqLen }) => sum + seqLen, 0);
}
