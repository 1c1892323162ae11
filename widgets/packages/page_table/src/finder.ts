// The search field: a request by its name, a page or a slot by its number.

import { type Disposer, type Frame, format, h } from "@sglab/core";
import type { Request } from "./model";
import { requestIn } from "./names";
import type { Shared } from "./shared";

const HELP = "Find a request (r12), a token of it (r12 300), a page (page 37) or a slot (slot 1600)";

export class Finder {
  readonly element = h("input", {
    type: "search",
    class: "sg-field pt-find",
    placeholder: "Find r1 300, page 7 …",
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
    const [, kind, digits] = /^(page|slot)\s*(\d+)$/i.exec(text) ?? [];
    const { request, token } = requestIn(text, model.requests);
    this.frame.clearNotice();
    try {
      if (kind !== undefined) await this.#select(kind.toLowerCase(), Number(digits));
      else if (!request) this.frame.notify("error", `“${text}” is no request of this batch. ${HELP}.`);
      else if (token === undefined) this.shared.select({ request: request.index });
      else await this.#selectToken(request, token);
    } catch (error) {
      this.frame.notify("error", (error as Error).message);
    }
  }

  async #selectToken(request: Request, token: number): Promise<void> {
    const { source, pool } = this.shared.model;
    if (token >= request.seqLen) {
      const tokens = format.count(request.seqLen - 1);
      this.frame.notify("error", `${request.name} has tokens 0 … ${tokens}; token ${token} is outside.`);
      return;
    }
    const at = request.start + Math.floor(token / pool.page_size);
    const page = (await source.slice("request_pages", at, at + 1)).data[0] as number;
    const slot = page * pool.page_size + (token % pool.page_size);
    this.shared.select({ request: request.index, page, slot, token });
  }

  async #select(kind: string, number: number): Promise<void> {
    const { source, pool } = this.shared.model;
    const page = kind === "page" ? number : Math.floor(number / pool.page_size);
    if (page > pool.pages) {
      this.frame.notify("error", `The pool has pages 0 … ${pool.pages}; ${kind} ${number} is outside.`);
      return;
    }
    const [owner = -1, , place = 0, used = 0] = (await source.slice("pages", page, page + 1)).data;
    if (kind === "page") this.shared.selectPage(page, owner, place);
    else {
      const row = number % pool.page_size;
      const holds = owner >= 0 && row < used;
      this.shared.select({
        page,
        slot: number,
        ...(owner >= 0 && { request: owner }),
        ...(holds && { token: place * pool.page_size + row }),
      });
    }
  }
}
