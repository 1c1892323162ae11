// The events of a run that read or wrote NaN, and who read from whom.

import type { Numbers } from "@sglab/protocol";
import type { Shown } from "./protocol";

export const ROLES = ["made", "came", "spread", "stored", "stopped"] as const;
export type Role = (typeof ROLES)[number];

export class Spread {
  readonly size: number;
  readonly parents: number[][];
  readonly children: number[][];
  #columns: (name: number) => Numbers;

  constructor(
    readonly shown: Shown,
    events: Numbers,
    links: Numbers,
  ) {
    this.size = shown.sentences.length;
    this.#columns = (i) => events.subarray(i * this.size, (i + 1) * this.size);
    this.parents = Array.from({ length: this.size }, () => []);
    this.children = Array.from({ length: this.size }, () => []);
    const count = links.length / 2;
    for (let i = 0; i < count; i++) {
      const [parent, child] = [links[i] as number, links[count + i] as number];
      this.parents[child]?.push(parent);
      this.children[parent]?.push(child);
    }
  }

  role(event: number): Role {
    return ROLES[this.#columns(0)[event] as number] as Role;
  }
  row(event: number): number {
    return this.#columns(1)[event] as number;
  }
  position(event: number): number {
    return this.#columns(2)[event] as number;
  }
  cta(event: number): number {
    return this.#columns(3)[event] as number;
  }
  warp(event: number): number {
    return this.#columns(4)[event] as number;
  }

  /** The shortest way from an origin to an event, both included. */
  way(event: number): number[] {
    const after = new Map<number, number>([[event, -1]]);
    let layer = [event];
    while (layer.length) {
      const next: number[] = [];
      for (const each of layer) {
        const parents = this.parents[each] ?? [];
        if (!parents.length) {
          const way: number[] = [];
          for (let at = each; at >= 0; at = after.get(at) ?? -1) way.push(at);
          return way;
        }
        for (const parent of parents) {
          if (after.has(parent)) continue;
          after.set(parent, each);
          next.push(parent);
        }
      }
      layer = next;
    }
    return [event];
  }

  /** Everything that an event's NaN has reached, itself included. */
  reached(event: number): Set<number> {
    const found = new Set([event]);
    for (const each of found) for (const child of this.children[each] ?? []) found.add(child);
    return found;
  }
}
