// What widgets of an engine that runs have in common: lines come, and who stands at the end goes on with them.

import { type Disposer, h, type Transport } from "@sglab/core";

/** Where to stand after more has come: at the new end for who stood at the old one, unless told to stay. */
export class Growing {
  #shown = -1; // the last end
  #stood = -1;
  #follows = true;

  constructor(
    private transport: Transport,
    /** Told when stepping away from the end has ended it, or stepping to the end has begun it again. */
    private told: (follows: boolean) => void = () => {},
  ) {
    transport.changed.on(() => this.#moved());
  }

  /** Told by the reader: to stay, or to go to the newest and on with it. */
  follow(follows: boolean): void {
    this.#follows = follows;
    if (follows) this.transport.goTo(this.#shown);
  }

  /** @param end the last position that there is now */
  standing(end: number): number {
    const first = this.#shown < 0;
    const atEnd = first || this.transport.position >= this.#shown;
    this.#shown = end;
    return first || (atEnd && this.#follows) ? end : this.transport.position;
  }

  #moved(): void {
    const { position } = this.transport;
    if (position === this.#stood || this.#shown < 0) return;
    this.#stood = position;
    this.#follows = position >= this.#shown;
    this.told(this.#follows);
  }
}

/** A box that says whether the run is followed, with what it stands for. */
export function followBox(
  transport: Transport,
  disposer: Disposer,
  title: string,
): { growing: Growing; label: HTMLElement } {
  const box = h("input", { type: "checkbox", checked: true });
  const growing = new Growing(transport, (follows) => {
    box.checked = follows;
  });
  disposer.listen(box, "change", () => growing.follow(box.checked));
  return { growing, label: h("label", { title }, box, "follow the run") };
}
