// The calls that were inlined on the way to an instruction, innermost first; each leads to its line.

import { h } from "@sglab/core";
import type { CodeModel, SourcePlace } from "./code_model";

export class ChainView {
  readonly element = h("nav", { class: "kd-chain", "aria-label": "Inlined calls" });
  #shown = "";

  constructor(
    private code: CodeModel,
    private go: (place: SourcePlace) => void,
  ) {}

  show(pc: number | undefined): void {
    const chain = pc === undefined ? [] : this.code.chain(pc);
    const shown = chain.map(({ file, line }) => `${file}:${line}`).join();
    if (shown === this.#shown) return;
    this.#shown = shown;
    const links = chain.length < 2 ? [] : chain.flatMap((place, i) => this.#link(place, i, chain[i - 1]));
    this.element.replaceChildren(...links);
  }

  #link(place: SourcePlace, level: number, inner: SourcePlace | undefined): HTMLElement[] {
    const file = this.code.fileName(place.file);
    const title = level ? `inlined at ${file}:${place.line}` : "the instruction's own line";
    const name = `${inner?.file === place.file ? "" : file}:${place.line}`;
    const button = h("button", { type: "button", class: "kd-link", title }, name);
    button.addEventListener("click", () => this.go(place));
    return level ? [h("span", { "aria-hidden": "true" }, " ‹ "), button] : [button];
  }
}
