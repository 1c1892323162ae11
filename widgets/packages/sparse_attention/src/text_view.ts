// The prompt as text: under each token a bar of its dense probability for the selected query; the chosen have a frame.

import { type Disposer, h } from "@sglab/core";
import {
  choiceName,
  isChosen,
  isMissed,
  type Look,
  likely,
  plainText,
  probability,
  type Read,
  tokenName,
} from "./data";

const HIGHEST = 8; // px of a bar

export class TextView {
  readonly element = h("div", { class: "ssp-text", role: "group", "aria-label": "The prompt" });
  #of: Read | undefined;
  #tokens: HTMLElement[] = [];

  constructor(disposer: Disposer, press: (query: number) => void) {
    disposer.listen(this.element, "click", (event) => {
      const token = (event.target as Element).closest<HTMLElement>("[data-token]");
      if (token) press(Number(token.dataset.token));
    });
    const copy = (event: ClipboardEvent) => this.#copy(event);
    document.addEventListener("copy", copy);
    disposer.add(() => document.removeEventListener("copy", copy));
  }

  draw(read: Read, look: Look): void {
    if (this.#of?.texts !== read.texts) {
      this.#tokens = read.texts.map((_, at) => {
        const name = tokenName(read.texts, at);
        const long = name.length > 1 ? "" : undefined; // words and ids stand apart, letters are read together
        return h(
          "span",
          { class: "ssp-token", "data-token": at, "data-long": long },
          h("span", {}, name),
          h("i"),
        );
      });
      this.element.replaceChildren(...this.#tokens);
    }
    this.#of = read;
    this.#tokens.forEach((token, key) => {
      const seen = key <= look.query;
      const value = seen ? probability(read, look.head, look.query, key) : 0;
      const chosen = seen && isChosen(read, look, key);
      token.dataset.state = key === look.query ? "query" : !seen ? "later" : chosen ? "chosen" : "out";
      token.dataset.chosen = String(chosen);
      token.dataset.missed = String(seen && isMissed(value, chosen));
      token.title = seen ? `key ${key}: ${likely(value)}, ${choiceName(value, chosen)}` : "after the query";
      const bar = token.lastElementChild as HTMLElement;
      bar.style.height = `${Math.round(HIGHEST * Math.sqrt(value))}px`;
    });
  }

  /** What is copied is the text, not the signs in it with a line for each. */
  #copy(event: ClipboardEvent): void {
    const selected = window.getSelection();
    const within = (node: Node | null | undefined) => node != null && this.element.contains(node);
    if (!this.#of || !selected || !within(selected.anchorNode) || !within(selected.focusNode)) return;
    const { texts } = this.#of;
    const copied = (at: number) => selected.containsNode(this.#tokens[at] as HTMLElement, true);
    event.clipboardData?.setData("text/plain", plainText(texts, copied));
    event.preventDefault();
  }
}
