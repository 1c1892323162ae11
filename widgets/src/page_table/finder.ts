// The search field: a request by its name, a page or a slot by its number.

import { type Disposer, type Frame, h } from "../core";
import type { Shared } from "./shared";

const HELP = "Find a request (r12), a page (page 37) or a slot (slot 1600)";

export class Finder {
  readonly element = h("input", {
    type: "search",
    class: "sg-field pt-find",
    placeholder: "Find r12, page 37 …",
    "aria-label": HELP,
    title: `${HELP} (/)`,
  });

  constructor(
    private shared: Shared,
    private frame: Frame,
    disposer: Disposer,
  ) {
    disposer.listen(this.element, "keydown", (event) => {
      if (event.key === "Enter") this.#find(this.element.value.trim());
    });
  }

  focus(): void {
    this.element.focus();
    this.element.select();
  }

  async #find(text: string): Promise<void> {
    const { model } = this.shared;
    const request = model.requests.find((each) => each.name === text);
    const [, kind, digits] = /^(page|slot)\s*(\d+)$/.exec(text) ?? [];
    if (request) this.shared.select({ request: request.index });
    else if (kind === undefined)
      this.frame.notify("error", `“${text}” is no request of this batch. ${HELP}.`);
    else await this.#select(kind, Number(digits));
  }

  async #select(kind: string, number: number): Promise<void> {
    const { source, pool } = this.shared.model;
    const page = kind === "page" ? number : Math.floor(number / pool.page_size);
    if (page > pool.pages) {
      this.frame.notify("error", `The pool has pages 0 … ${pool.pages}; ${kind} ${number} is outside.`);
      return;
    }
    try {
      const [owner = -1, , place = 0] = (await source.slice("pages", page, page + 1)).data;
      if (kind === "page") this.shared.selectPage(page, owner, place);
      else this.shared.select({ page, slot: number, ...(owner >= 0 && { request: owner }) });
    } catch (error) {
      this.frame.notify("error", (error as Error).message);
    }
  }
}
