// What widgets of an engine that runs have in common: lines come, and who stands at the end goes on with them.

import type { Transport } from "@sglab/core";

/** Where to stand after more has come: at the new end for who stood at the old one, unless told to stay. */
export class Growing {
  #shown = -1; // the last end

  constructor(private transport: Transport) {}

  /** @param end the last position that there is now */
  standing(end: number, follows = true): number {
    const first = this.#shown < 0;
    const atEnd = first || this.transport.position >= this.#shown;
    this.#shown = end;
    return first || (atEnd && follows) ? end : this.transport.position;
  }
}
