// Where a plan puts what is selected elsewhere in the notebook. Pure.

import type { Selection } from "@sglab/protocol";
import type { Work } from "./data";

/** The work units that a selection means: those that attend to its token, those of its split, or those of its CTA. */
export function locate(work: Work, { request, token, split, cta }: Selection): number[] {
  if (request === undefined && cta === undefined) return [];
  const at = (column: ArrayLike<number>, i: number) => column[i] as number;
  const meant = (i: number): boolean => {
    if (request === undefined) return work.cta[i] === cta;
    if (work.request[i] !== request) return false;
    if (token !== undefined) return at(work.tokenStart, i) <= token && token < at(work.tokenEnd, i);
    return split !== undefined && work.split[i] === split;
  };
  const found = Array.from({ length: work.size }, (_, i) => i).filter(meant);
  const exact = found.filter((i) => work.cta[i] === cta);
  return exact.length ? exact : found;
}

/** What selecting a work unit selects: a page within it stays selected. */
export function selectionOf(work: Work, i: number, before: Selection): Selection {
  const at = (column: ArrayLike<number>) => column[i] as number;
  const request = at(work.request);
  const [start, end] = [at(work.tokenStart), at(work.tokenEnd)];
  const unit = { request, split: at(work.split), cta: at(work.cta), sm: at(work.sm) };
  const { page, token = -1, tokens } = before;
  const within = page !== undefined && before.request === request && token >= start && token < end;
  return within ? { ...unit, page, token, tokens } : { ...unit, token: start, tokens: end - start };
}
