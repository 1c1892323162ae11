// Lines from a request's pages to their places in the pool: thin for the selected request, thick for the last moment.

import { framed, type Rect, s } from "@sglab/core";
import type { PoolView } from "./pool_view";
import type { RequestsView } from "./requests_view";
import type { Shared } from "./shared";

const LINKED = 64;

export class LinksView {
  readonly element = s("svg", { class: "pt-links", "aria-hidden": "true" });
  #frame = framed(() => this.#draw());
  #shared: Shared | undefined;
  #requests: RequestsView | undefined;
  #pool: PoolView | undefined;

  attach(shared: Shared, requests: RequestsView, pool: PoolView): void {
    this.#shared = shared;
    this.#requests = requests;
    this.#pool = pool;
  }

  readonly redraw = (): void => this.#frame.schedule();

  dispose(): void {
    this.#frame.cancel();
  }

  #draw(): void {
    const shared = this.#shared;
    if (!shared) return;
    const paths: SVGPathElement[] = [];
    const { moment, model } = shared;
    const request = model.requests[shared.selected.request ?? -1];
    for (let number = 0; request && number < Math.min(request.pages, LINKED); number++)
      this.#link(paths, request.index, number, model.pageOf(request, number), false);
    const number = moment && model.pageNumberOfMoment(moment);
    if (moment && number !== undefined) this.#link(paths, moment.program, number, shared.nowPage, true);
    this.element.replaceChildren(...paths);
  }

  #link(paths: SVGPathElement[], row: number, column: number, page: number | undefined, now: boolean): void {
    if (page === undefined || !this.#pool) return;
    const from = this.#requests?.grid.clientRect({ row, column });
    const to = this.#pool.grid.clientRect(this.#pool.cellOf(page));
    if (!from || !to) return;
    paths.push(s("path", { d: this.#curve(from, to), class: now ? "pt-link pt-now" : "pt-link" }));
  }

  /** From the bottom of one cell to the top of the other, or from side to side where the pool is beside. */
  #curve(from: Rect, to: Rect): string {
    const box = this.element.getBoundingClientRect();
    const middle = (rect: Rect) => rect.x + rect.width / 2 - box.left;
    if (to.y >= from.y + from.height) {
      const top = from.y + from.height - box.top;
      const bottom = to.y - box.top;
      const bend = (top + bottom) / 2;
      return `M${middle(from)},${top} C${middle(from)},${bend} ${middle(to)},${bend} ${middle(to)},${bottom}`;
    }
    const start = { x: from.x + from.width - box.left, y: from.y + from.height / 2 - box.top };
    const end = { x: to.x - box.left, y: to.y + to.height / 2 - box.top };
    const bend = (start.x + end.x) / 2;
    return `M${start.x},${start.y} C${bend},${start.y} ${bend},${end.y} ${end.x},${end.y}`;
  }
}
