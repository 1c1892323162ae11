// From pages of the KV pool to the instructions that read them, and back.

import { format } from "@sglab/core";
import type { Selection } from "@sglab/protocol";
import type { Launch } from "./data";

export class PageIndex {
  #readOf = new Map<number, number>();
  #copyOf = new Map<number, number>();

  constructor(private launch: Launch) {
    const { reads, copies } = launch;
    for (let i = reads.size - 1; i >= 0; i--) this.#readOf.set(reads.event[i] as number, i);
    for (let i = copies.size - 1; i >= 0; i--) this.#copyOf.set(copies.event[i] as number, i);
  }

  /** What an event reads of the pool: a row of `reads`. */
  readOf(event: number): number | undefined {
    return this.#readOf.get(event);
  }

  /** The copy that an event issues: a row of `copies`. */
  copyOf(event: number): number | undefined {
    return this.#copyOf.get(event);
  }

  /** Rows of `reads` of the selected page, by the selected CTA and warp where they are. */
  readsOf({ page, cta, warp }: Selection): number[] {
    const { reads, meta, events, places } = this.launch;
    if (page === undefined) return [];
    const found: number[] = [];
    for (let i = 0; i < reads.size; i++) {
      if (reads.page[i] !== page) continue;
      const row = events.row[places.indexOf(reads.event[i] as number)] as number;
      const here = cta === undefined || meta.ctas[Math.floor(row / meta.warps)] === cta;
      if (here && (warp === undefined || row % meta.warps === warp)) found.push(i);
    }
    return found;
  }

  /** The CTAs of the launch that read what is selected: a page, some of a request's tokens, or a request. */
  ctasOf({ page, request, token, tokens = 1 }: Selection): number[] {
    const { pageCtas: table } = this.launch;
    const found = new Set<number>();
    if (page === undefined && request === undefined) return [];
    for (let i = 0; i < table.size; i++) {
      if (page !== undefined ? table.page[i] !== page : table.request[i] !== request) continue;
      const first = table.token[i] as number;
      const among = page !== undefined || token === undefined || (first >= token && first < token + tokens);
      if (among) found.add(table.cta[i] as number);
    }
    return [...found];
  }

  /** What else is selected with an event that reads a page. */
  selectionOf(event: number): Selection {
    const { reads } = this.launch;
    const read = this.readOf(event);
    if (read === undefined) return {};
    const request = reads.request[read] as number;
    const page = reads.page[read] as number;
    if (request < 0) return { page };
    return { page, request, token: reads.token[read] as number, tokens: reads.tokens[read] as number };
  }

  /** "page 7, tokens 256 … 319 of r1". */
  textOf(read: number): string {
    const { reads } = this.launch;
    const page = `page ${format.count(reads.page[read] as number)}`;
    const tokens = this.tokensOf(read);
    return reads.request[read] === -1 ? page : `${page}, ${tokens} of r${reads.request[read]}`;
  }

  tokensOf(read: number): string {
    const { reads } = this.launch;
    const [first, size] = [reads.token[read] as number, reads.tokens[read] as number];
    if (size === 0) return "slots past the last token";
    if (size === 1) return `token ${format.count(first)}`;
    return `tokens ${format.count(first)} … ${format.count(first + size - 1)}`;
  }
}

/** What stays selected when something else of the same CTAs is: the way that led here. */
export function trailOf(
  { meta }: Launch,
  { request, page, token, tokens, split, cta }: Selection,
): Selection {
  const left = cta !== undefined && !meta.ctas.includes(cta);
  return left ? {} : { request, page, token, tokens, split };
}
