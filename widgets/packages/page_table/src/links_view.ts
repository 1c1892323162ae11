// Lines from a request's pages to their places in the pool: thin for the selected request, thick for the last moment.

import { framed, type Rect, s } from "@sglab/core";
import { pathBetween } from "./link_path";
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
    if (page === undefined || !this.#pool || !this.#requests) return;
    const [requests, pool] = [this.#requests.grid, this.#pool.grid];
    const from = requests.clientRect({ row, column });
    const to = pool.clientRect(this.#pool.cellOf(page));
    if (!from || !to) return;
    const box = this.element.getBoundingClientRect();
    const within = ({ x, y, width, height }: Rect): Rect => ({ x: x - box.x, y: y - box.y, width, height });
    const [grid, other] = [requests, pool].map((each) => within(each.element.getBoundingClientRect()));
    const d = pathBetween(within(from), within(to), grid as Rect, other as Rect);
    paths.push(s("path", { d, class: now ? "pt-link pt-now" : "pt-link" }));
  }
}
