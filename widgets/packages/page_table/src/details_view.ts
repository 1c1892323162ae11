// The details pane: the selected request and page, the page's slots, and the pool in numbers.

import { type Cell, CellGrid, type Disposer, type Frame, format, h, type Rect } from "@sglab/core";
import { pageParts, requestParts, table } from "./facts";
import type { Page, Request } from "./model";
import type { Shared } from "./shared";

const { bytes, count, percent, plural } = format;
const SLOT_COLUMNS = 16;

export class DetailsView {
  #selected = h("div");
  #slotsTitle = h("div", { class: "sg-heading" });
  #slots: CellGrid;
  #slotsBox: HTMLElement;
  #pool = h("div");
  #page: number | undefined;
  #columns = SLOT_COLUMNS;

  constructor(
    private shared: Shared,
    frame: Frame,
    disposer: Disposer,
  ) {
    this.#slots = new CellGrid(
      {
        label: "Slots of the page",
        theme: shared.theme,
        tooltip: shared.tooltip,
        paint: (context, cell, rect) => this.#paintSlot(context, cell, rect),
        describe: (cell) => this.#describeSlot(cell),
        select: (cell) => this.#selectSlot(cell),
      },
      disposer,
    );
    this.#slotsBox = h("div", {}, this.#slotsTitle, this.#slots.element);
    frame.details.append(this.#selected, this.#slotsBox, this.#pool);
  }

  update(): void {
    const { model, selected } = this.shared;
    this.#page = selected.page ?? this.shared.nowPage;
    const request = model.requests[selected.request ?? -1];
    const page = this.#page === undefined ? undefined : model.page(this.#page);
    const parts: Node[] = [];
    if (request) parts.push(...requestParts(this.shared, request));
    if (page && this.#page !== undefined) parts.push(...pageParts(this.shared, this.#page, page));
    if (!parts.length)
      parts.push(
        h(
          "p",
          { class: "pt-hint" },
          "Click a request, a page or an entry, or step with → and ←. Press ? for all keys.",
        ),
      );
    this.#selected.replaceChildren(...parts);
    this.#showSlots(page);
    this.#pool.replaceChildren(h("div", { class: "sg-heading" }, "Pool"), this.#poolTable());
  }

  redraw(): void {
    this.#slots.redraw();
  }

  #poolTable(): HTMLElement {
    const { pool } = this.shared.model;
    const total = pool.pages;
    const held = pool.held * pool.page_size;
    return table([
      ["pages", `${count(total)} × ${plural(pool.page_size, "token")}`, "without the dummy page 0"],
      ["held by requests", `${count(pool.held)} (${percent(pool.held / total)})`],
      ["shared", count(pool.shared), "pages that more than one request holds"],
      [
        "only in the radix tree",
        count(pool.cached),
        "cached prefixes that no running request uses; evictable",
      ],
      [
        "free",
        `${count(pool.free)}, longest run ${count(pool.largest_free_run)}`,
        "longest run: neighbouring free pages",
      ],
      [
        "unused slots",
        `${count(pool.unused_slots)} (${percent(held ? pool.unused_slots / held : 0)})`,
        "slots at the end of requests' last pages: internal fragmentation",
      ],
      [
        "contiguous",
        percent(pool.adjacent),
        "share of a request's pages whose next page is the next page of the pool",
      ],
      [
        "size",
        bytes(total * pool.page_size * pool.slot_bytes),
        `${count(pool.slot_bytes)} B per token, all layers`,
      ],
    ]);
  }

  #showSlots(page: Page | undefined): void {
    const size = this.shared.model.pool.page_size;
    this.#slotsBox.hidden = !page || size === 1;
    if (!page || this.#page === undefined || size === 1) return;
    this.#slotsTitle.textContent = `Slots ${count(this.#page * size)} … ${count((this.#page + 1) * size - 1)}`;
    this.#columns = Math.min(SLOT_COLUMNS, size);
    this.#slots.setGeometry({
      rows: Math.ceil(size / this.#columns),
      columns: this.#columns,
      cellWidth: 15,
      cellHeight: 15,
      headerWidth: 0,
      headerHeight: 0,
      maxHeight: 122,
    });
  }

  #slot({ row, column }: Cell): number {
    return (this.#page ?? 0) * this.shared.model.pool.page_size + row * this.#columns + column;
  }

  /** The token in a slot of the shown page: [its request, its number], or undefined. */
  #token(slot: number): { request: Request; token: number } | undefined {
    const { model } = this.shared;
    const page = this.#page === undefined ? undefined : model.page(this.#page);
    const size = model.pool.page_size;
    const request = page && model.requests[page.owner];
    if (!page || !request || slot % size >= page.used) return undefined;
    return { request, token: page.number * size + (slot % size) };
  }

  #paintSlot(context: CanvasRenderingContext2D, cell: Cell, rect: Rect): void {
    const { painter, moment, selected } = this.shared;
    const slot = this.#slot(cell);
    const found = this.#token(slot);
    const box = { x: rect.x + 1, y: rect.y + 1, width: rect.width - 1, height: rect.height - 1 };
    if (found) {
      context.fillStyle = painter.fill(this.shared.look(found.request.index));
      context.fillRect(box.x, box.y, box.width, box.height);
    } else painter.empty(context, box);
    if (moment?.read?.array === "req_to_token" && moment.read.value === slot) painter.flag(context, box, "R");
    if (selected.slot !== slot) return;
    const { background, focus } = painter.theme();
    context.fillStyle = background; // the outline stands out from any request's colour
    context.fillRect(box.x - 1, box.y - 1, box.width + 2, box.height + 2);
    context.fillStyle = focus;
    context.fillRect(box.x + 3, box.y + 3, box.width - 6, box.height - 6);
    painter.outline(context, box, focus);
  }

  #describeSlot(cell: Cell): string {
    const slot = this.#slot(cell);
    const size = this.shared.model.pool.page_size;
    const found = this.#token(slot);
    const place = `slot ${count(slot)} = page ${this.#page} × ${size} + ${slot % size}`;
    return `${place}\n${found ? `token ${count(found.token)} of ${found.request.name}` : "holds no token"}`;
  }

  #selectSlot(cell: Cell): void {
    const slot = this.#slot(cell);
    const found = this.#token(slot);
    this.shared.select({
      page: this.#page as number,
      slot,
      ...(found && { request: found.request.index, token: found.token }),
    });
  }
}
