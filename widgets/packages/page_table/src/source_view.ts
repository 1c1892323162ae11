// The kernel's source with a mark at the lines that the last moment executed.

import { h } from "@sglab/core";
import type { Shared } from "./shared";

const LEAST = 100; // px

export class SourceView {
  readonly element = h("div", { class: "pt-source" });
  #text = h("pre", { tabindex: 0 });
  #caption = h("div", { class: "pt-caption" });
  #lines: HTMLElement[] = [];
  #shown = "";

  constructor(private shared: Shared) {
    this.element.append(this.#caption, this.#text);
  }

  /** Pixels of the listing; 0 while it is not shown. */
  get height(): number {
    return this.#text.offsetHeight;
  }

  set height(pixels: number) {
    const height = `${Math.max(LEAST, Math.floor(pixels))}px`;
    if (this.#text.style.maxHeight === height) return;
    this.#text.style.maxHeight = height;
    this.#showMarked();
  }

  layout(): void {
    const { source, kernel } = this.shared.model.run;
    if (this.#shown === source.text) return;
    this.#shown = source.text;
    this.#caption.replaceChildren(h("code", {}, kernel), ` ${source.file}`);
    this.#text.setAttribute("aria-label", `Source of ${kernel}`);
    this.#lines = source.text
      .replace(/\n$/, "")
      .split("\n")
      .map((line, i) => h("span", { class: "pt-line", "data-number": source.first_line + i }, `${line}\n`));
    this.#text.replaceChildren(...this.#lines);
  }

  update(): void {
    const { moment, model } = this.shared;
    const now = new Map([
      [moment?.read?.line, "R"],
      [moment?.write?.line, "W"],
    ]);
    const first = model.run.source.first_line;
    this.#lines.forEach((line, i) => {
      const mark = now.get(first + i) ?? "";
      if (line.dataset.mark !== mark) line.dataset.mark = mark;
    });
    this.#showMarked();
  }

  /** Scrolls the listing, and only the listing, to the marked lines. */
  #showMarked(): void {
    const marked = this.#lines.find((line) => line.dataset.mark);
    const pre = this.#text;
    if (!marked || pre.scrollHeight <= pre.clientHeight) return;
    const top = marked.offsetTop;
    if (top < pre.scrollTop || top + 40 > pre.scrollTop + pre.clientHeight)
      pre.scrollTop = Math.max(0, top - pre.clientHeight / 2);
  }
}
