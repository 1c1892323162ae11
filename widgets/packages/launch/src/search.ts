// Finding events by their text: instruction, source place, barrier.

import { placeText } from "./code";
import type { Launch } from "./data";

export interface Found {
  /** How many of the cluster's events match, and which of them `index` is, from 1. */
  count: number;
  number: number;
  index: number;
}

export class Search {
  #query = "";
  #matches: Uint32Array = new Uint32Array(0);

  constructor(private launch: Launch) {}

  /** The next event after (or before) `index` whose text holds all words of `query`. */
  next(query: string, index: number, direction: 1 | -1): Found | undefined {
    if (query !== this.#query) {
      this.#query = query;
      this.#matches = this.#find(query);
    }
    const all = this.#matches;
    if (all.length === 0) return undefined;
    let at = all.findIndex((each) => (direction > 0 ? each > index : each >= index));
    if (direction > 0) at = at < 0 ? 0 : at;
    else at = at <= 0 ? all.length - 1 : at - 1;
    return { count: all.length, number: at + 1, index: all[at] as number };
  }

  #find(query: string): Uint32Array {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return new Uint32Array(0);
    const { events, code, actions, meta } = this.launch;
    const texts = new Map(code.pcs.map((pc) => [pc, textOf(this.launch, pc)]));
    const barrier = new Map<number, string>();
    for (let i = 0; i < actions.size; i++)
      barrier.set(
        actions.event[i] as number,
        (meta.barriers[actions.barrier[i] as number]?.name ?? "").toLowerCase(),
      );
    const certain = new Map([...texts].map(([pc, text]) => [pc, words.every((word) => text.includes(word))]));
    const found: number[] = [];
    for (let i = 0; i < events.size; i++) {
      const pc = events.pc[i] as number;
      const name = barrier.get(events.at[i] as number);
      const matches =
        certain.get(pc) ||
        (name !== undefined && words.every((word) => name.includes(word) || texts.get(pc)?.includes(word)));
      if (matches) found.push(i);
    }
    return Uint32Array.from(found);
  }
}

function textOf({ code }: Launch, pc: number): string {
  const { text, chain, ptxLine } = code.at(pc);
  return `${text} ${chain.map(placeText).join(" ")} ptx:${ptxLine}`.toLowerCase();
}
