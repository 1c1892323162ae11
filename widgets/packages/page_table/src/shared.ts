// What the views of one widget have in common: the data, the selection, and the moment that the transport is at.

import type { Look, Rect, SelectionStore, Theme, Tooltip, Transport } from "@sglab/core";
import type { Selection } from "@sglab/protocol";
import type { Moment, Page, PageTableModel } from "./model";
import type { Painter } from "./paint";

/** Opacity of what is not selected: dimmed, never hidden. */
export const DIM = 0.42;

export class Shared {
  /** The moment that happened last, once its row of the trace is here. */
  moment: Moment | undefined;

  constructor(
    readonly model: PageTableModel,
    readonly painter: Painter,
    readonly transport: Transport,
    readonly tooltip: Tooltip,
    private selection: SelectionStore,
    /** Called after a view was drawn: lines between views move with it. */
    readonly drawn: () => void,
  ) {}

  readonly theme = (): Theme => this.painter.theme();

  /** A request keeps its colour when those before it leave and its place in the batch changes. */
  look(index: number): Look {
    return this.painter.look(this.model.requests[index]?.hue ?? index);
  }

  get selected(): Selection {
    return this.selection.value;
  }

  select(selection: Selection): void {
    this.selection.set(selection, this);
  }

  /** Selects a page, with the request that holds it as its page `number`, and the tokens in it. */
  selectPage(page: number | undefined, index: number, number: number): void {
    const request = this.model.requests[index];
    const { page_size: size } = this.model.pool;
    const token = number * size;
    if (!request) this.select({ page });
    else this.select({ request: index, page, token, tokens: Math.min(size, request.seqLen - token) });
  }

  updateMoment(): void {
    const { position } = this.transport;
    this.moment = position > 0 ? this.model.moment(position - 1) : undefined;
  }

  get nowPage(): number | undefined {
    return this.moment && this.model.pageOfMoment(this.moment);
  }

  /** Whether the last moment dealt with this page of this request. */
  isNow(request: number, number: number): boolean {
    const { moment, model } = this;
    return moment?.program === request && model.pageNumberOfMoment(moment) === number;
  }

  /** Dimmed: something else is selected. `number`: of the page within the request. */
  dimmed(request: number, page?: number, number?: number): boolean {
    const { selected } = this;
    if (selected.request !== undefined)
      return selected.request !== request || (number !== undefined && this.#outside(number));
    return selected.page !== undefined && page !== undefined && selected.page !== page;
  }

  dimmedPage(id: number, page: Page): boolean {
    const { selected } = this;
    if (selected.page === id) return false;
    if (selected.request === undefined) return selected.page !== undefined;
    if (page.holders > 1) return !this.#holds(selected.request, id);
    return page.owner !== selected.request || this.#outside(page.number);
  }

  /** Whether a split is selected that this page of its request is outside of. */
  #outside(number: number): boolean {
    const { page, token, tokens } = this.selected;
    if (page !== undefined || token === undefined || tokens === undefined) return false;
    const { page_size: size } = this.model.pool;
    return number * size >= token + tokens || (number + 1) * size <= token;
  }

  /** Whether a request holds a page: shared pages are few and lead its pages. */
  #holds(index: number, page: number): boolean {
    const request = this.model.requests[index];
    if (!request) return false;
    for (let number = 0; number < request.pages; number++)
      if (this.model.pageOf(request, number) === page) return true;
    return false;
  }

  /** Outlines over a cell: changed by the last edit, selected, dealt with just now. */
  paintMarks(
    context: CanvasRenderingContext2D,
    cell: Rect,
    { page, request, now }: { page: number | undefined; request?: number; now: boolean },
  ): void {
    const { selected, painter } = this;
    const theme = painter.theme();
    if (page !== undefined && this.model.changedPages.has(page))
      painter.outline(context, cell, theme.text, [3, 2]);
    const chosen = page !== undefined && selected.page === page;
    if (chosen && (request === undefined || selected.request === undefined || selected.request === request))
      painter.outline(context, cell, theme.focus);
    if (now && cell.width > 12) painter.flag(context, cell, "R");
    else if (now) painter.outline(context, cell, theme.text);
  }
}
