// The tensors themselves, entry by entry: what the kernel has read and written up to where the transport is.

import { type Cell, CellGrid, type Disposer, format, h, type Rect, revealWithin } from "@sglab/core";
import type { Request } from "./model";
import { shortName } from "./names";
import { beginOf, type Place, placeOf } from "./places";
import type { ArrayFacts } from "./protocol";
import { DIM, type Shared } from "./shared";
import { writerOf } from "./words";

const ROW = 22;
const HEADER_ROW = 16;

const MEANING: Record<string, string> = {
  seq_lens: "tokens of each request",
  req_pool_indices: "each request's row of req_to_token",
  kv_indptr: "where each request begins in kv_indices",
  req_to_token: "slot of every token: [row of the request, token]",
  block_kv_indices: "page table: [request, page number] → page",
  kv_indices: "slots of all tokens, request after request",
};

interface Shown {
  facts: ArrayFacts;
  caption: HTMLElement;
  grid: CellGrid;
  matrix: boolean;
}

export class ArraysView {
  readonly element = h("div", { class: "pt-arrays" });
  /** Of each matrix in sight. */
  rows = 4;
  #shown: Shown[] = [];
  #disposers: (() => void)[] = [];

  constructor(
    private shared: Shared,
    private makeDisposer: () => Disposer,
  ) {}

  /** Rebuilds the grids of the shown run where its arrays differ; else only their sizes change. */
  layout(): void {
    const { arrays } = this.shared.model.run;
    const names = arrays.map((each) => each.name).join();
    if (this.#shown.map((each) => each.facts.name).join() !== names) this.#rebuild(arrays);
    this.#shown.forEach((shown, i) => {
      shown.facts = arrays[i] as ArrayFacts;
      this.#caption(shown);
      this.#size(shown);
    });
  }

  /** How many matrices there are, their rows, and the pixels of those that are in sight. */
  get matrices(): { count: number; rows: number; row: number; seen: number } {
    const lengths = this.#shown.filter(({ matrix }) => matrix).map(({ facts }) => facts.shape[0] as number);
    const seen = lengths.reduce((sum, length) => sum + Math.min(length, this.rows) * ROW, 0);
    return { count: lengths.length, rows: Math.max(0, ...lengths), row: ROW, seen };
  }

  redraw(): void {
    for (const { grid } of this.#shown) grid.redraw();
  }

  /** Scrolls every array to what the last moment read and wrote, and the view to where it wrote. */
  follow(): void {
    const { moment } = this.shared;
    for (const access of [moment?.read, moment?.write]) {
      const shown = this.#shown.find((each) => each.facts.name === access?.array);
      if (!access || !shown) continue;
      shown.grid.reveal({ row: shown.matrix ? access.row : 0, column: access.column });
      const view = access === moment?.write && this.element.closest(".sg-view");
      if (view) revealWithin(view, shown.grid.element);
    }
  }

  /** Scrolls every array to what is selected: the entries of a slot or page, else the request's first. */
  showSelection(request: Request): void {
    for (const { facts, grid, matrix } of this.#shown) {
      const place = placeOf(this.shared.model, facts.name, this.shared.selected);
      if (place) grid.reveal({ row: place.row, column: place.first });
      else if (matrix)
        grid.reveal({ row: facts.name === "req_to_token" ? request.row : request.index, column: 0 });
    }
  }

  dispose(): void {
    for (const dispose of this.#disposers.splice(0)) dispose();
  }

  #rebuild(arrays: ArrayFacts[]): void {
    this.dispose();
    const disposer = this.makeDisposer();
    this.#disposers.push(() => disposer.dispose());
    this.#shown = arrays.map((facts) => this.#make(facts, disposer));
    this.element.replaceChildren(
      ...this.#shown.map(({ facts, grid, matrix, caption }) => {
        const output = facts.name === this.shared.model.run.output;
        const kind = `pt-array${matrix ? "" : " pt-vector"}${output ? " pt-output" : ""}`;
        return h("div", { class: kind }, caption, grid.element);
      }),
    );
  }

  #caption({ facts, caption, grid }: Shown): void {
    const role = facts.name === this.shared.model.run.output ? "written" : "read";
    const shape = `${facts.dtype} [${facts.shape.join(", ")}]`;
    caption.replaceChildren(
      h("code", {}, facts.name),
      ` ${shape} · ${role}`,
      h("span", { class: "pt-meaning" }, MEANING[facts.name] ?? ""),
    );
    grid.setLabel(`${facts.name}, ${shape}`);
  }

  #make(facts: ArrayFacts, disposer: Disposer): Shown {
    const matrix = facts.shape.length === 2;
    const { shared } = this;
    const shown: Shown = {
      facts,
      matrix,
      caption: h("div", { class: "pt-caption" }),
      grid: undefined as unknown as CellGrid,
    };
    shown.grid = new CellGrid(
      {
        label: facts.name,
        theme: shared.theme,
        tooltip: shared.tooltip,
        paint: (context, cell, rect) => this.#paint(context, shown, cell, rect),
        paintRowHeader: (context, row, rect) => this.#paintRowHeader(context, shown, row, rect),
        paintColumnHeader: (context, column, rect) => this.#paintColumnHeader(context, column, rect),
        describe: (cell) => this.#describe(shown, cell),
        select: (cell) => this.#select(shown, cell),
      },
      disposer,
    );
    return shown;
  }

  #size({ facts, grid, matrix }: Shown): void {
    const { model } = this.shared;
    const rows = matrix ? (facts.shape[0] as number) : 1;
    const columns = facts.shape[matrix ? 1 : 0] as number;
    const largest = (model.pool.pages + 1) * model.pool.page_size;
    const digits = String(Math.max(largest, columns)).length;
    grid.setGeometry({
      rows,
      columns,
      cellWidth: Math.max(36, 7 * digits + 22),
      cellHeight: ROW,
      headerWidth: matrix ? 86 : 0,
      headerHeight: HEADER_ROW,
      maxHeight: HEADER_ROW + ROW * this.rows,
    });
  }

  /** The request that an entry belongs to, and what the entry is: a number in use, or room that holds nothing yet. */
  #owner({ facts }: Shown, { row, column }: Cell): { request: Request | undefined; used: boolean } {
    const { model } = this.shared;
    const { name } = facts;
    if (name === "req_to_token") {
      const request = model.ownerOfRow(row);
      return { request, used: request !== undefined && column < request.seqLen };
    }
    if (name === "block_kv_indices") {
      const request = model.requests[row];
      return { request, used: request !== undefined && column < request.pages };
    }
    if (name === "kv_indices") return { request: this.#requestOfToken(column), used: true };
    return { request: model.requests[column], used: true };
  }

  /** Which request an entry of the CSR array kv_indices belongs to. */
  #requestOfToken(entry: number): Request | undefined {
    const { requests } = this.shared.model;
    let end = 0;
    return requests.find((request) => {
      end += request.seqLen;
      return entry < end;
    });
  }

  /** What an entry shows at this position of the transport, and whether it was touched in the last step. */
  #state(
    { facts }: Shown,
    { row, column }: Cell,
  ): { value: number | undefined; now: boolean; pending: boolean } {
    const { model, transport } = this.shared;
    const touched = model.entry(facts, row, column, ".touched_at");
    const now = touched !== undefined && touched > transport.previous && touched <= transport.position;
    const output = facts.name === model.run.output;
    const pending = output && touched !== undefined && (touched === 0 || touched > transport.position);
    return { value: model.entry(facts, row, column, pending ? ".before" : ""), now, pending };
  }

  #paint(context: CanvasRenderingContext2D, shown: Shown, cell: Cell, rect: Rect): void {
    const { painter } = this.shared;
    const theme = painter.theme();
    const { request, used } = this.#owner(shown, cell);
    const { value, now, pending } = this.#state(shown, cell);
    const dim = request ? this.shared.dimmed(request.index) : !used;
    context.globalAlpha = dim && !now ? DIM : 1;
    context.strokeStyle = theme.border;
    context.lineWidth = 1;
    context.strokeRect(rect.x + 0.5, rect.y + 0.5, rect.width, rect.height);
    if (!used) painter.empty(context, rect);
    else if (request && !pending) {
      context.fillStyle = painter.fill(this.shared.look(request.index));
      context.fillRect(rect.x + 1, rect.y + rect.height - 4, rect.width - 1, 4);
    }
    if (value !== undefined) {
      const centre = { x: rect.x + rect.width / 2 + 4, y: rect.y + rect.height / 2 - 1 };
      const ink = used && !pending ? theme.text : theme.muted;
      painter.plated(context, String(value), centre, theme.background, ink, 11);
    }
    context.globalAlpha = 1;
    this.#outline(context, placeOf(this.shared.model, shown.facts.name, this.shared.selected), cell, rect);
    if (now) painter.flag(context, rect, shown.facts.name === this.shared.model.run.output ? "W" : "R");
  }

  /** One outline around all neighbouring entries of what is selected. */
  #outline(
    context: CanvasRenderingContext2D,
    place: Place | undefined,
    { row, column }: Cell,
    rect: Rect,
  ): void {
    if (!place || row !== place.row || column < place.first || column > place.last) return;
    const [left, right] = [column === place.first ? 1 : 0, column === place.last ? 1 : 0];
    context.fillStyle = this.shared.theme().focus;
    for (const y of [rect.y + 1, rect.y + rect.height - 2]) context.fillRect(rect.x, y, rect.width + 1, 2);
    if (left) context.fillRect(rect.x, rect.y + 1, 2, rect.height - 1);
    if (right) context.fillRect(rect.x + rect.width - 1, rect.y + 1, 2, rect.height - 1);
  }

  #paintRowHeader(context: CanvasRenderingContext2D, shown: Shown, row: number, rect: Rect): void {
    if (!shown.matrix) return;
    const { painter } = this.shared;
    const theme = painter.theme();
    const { request } = this.#owner(shown, { row, column: 0 });
    const y = rect.y + rect.height / 2;
    context.textAlign = "left";
    painter.text(context, String(row), rect.x + 6, y, theme.muted, 10);
    if (!request) return;
    context.fillStyle = painter.fill(this.shared.look(request.index));
    context.fillRect(rect.x + 30, y - 5, 10, 10);
    painter.text(context, shortName(request.name), rect.x + 44, y, theme.text, 11);
  }

  #paintColumnHeader(context: CanvasRenderingContext2D, column: number, rect: Rect): void {
    const { painter } = this.shared;
    context.textAlign = "center";
    painter.text(
      context,
      String(column),
      rect.x + rect.width / 2 + 4,
      rect.y + rect.height / 2,
      painter.theme().muted,
      10,
    );
  }

  #describe(shown: Shown, cell: Cell): string {
    const { model } = this.shared;
    const { facts, matrix } = shown;
    const { request, used } = this.#owner(shown, cell);
    const { value, pending } = this.#state(shown, cell);
    const place = matrix ? `${cell.row}, ${cell.column}` : String(cell.column);
    const lines = [`${facts.name}[${place}] = ${value ?? "…"}`];
    const size = model.pool.page_size;
    if (!used && facts.name === "req_to_token")
      lines.push(
        request
          ? `stale: ${request.name} has only ${format.plural(request.seqLen, "token")}`
          : "no request owns this row",
      );
    else if (!used)
      lines.push(
        `padding: ${request?.name} has only ${format.plural(request?.pages ?? 0, "page")}; the kernel leaves what was here`,
      );
    else if (facts.name === "req_to_token" || facts.name === "kv_indices")
      lines.push(this.#slotMeaning(value, size, request));
    else if (facts.name === "block_kv_indices" && !pending)
      lines.push(`${request?.name}: page ${cell.column} is page ${value} of the pool`);
    if (used && facts.name === model.run.output) {
      const writer = writerOf(model, facts, cell.row, cell.column);
      if (writer) lines.push(`${pending ? "not written yet: " : ""}${writer.sentence}`);
    }
    return lines.join("\n");
  }

  #slotMeaning(slot: number | undefined, size: number, request: Request | undefined): string {
    if (slot === undefined || slot < 0) return "";
    const place = size > 1 ? ` = page ${Math.floor(slot / size)} × ${size} + ${slot % size}` : "";
    return `${request?.name}: slot ${slot}${place}`;
  }

  #select(shown: Shown, cell: Cell): void {
    const { model } = this.shared;
    const { request, used } = this.#owner(shown, cell);
    if (!request) return;
    const size = model.pool.page_size;
    const value = model.entry(shown.facts, cell.row, cell.column);
    const { name } = shown.facts;
    const isSlot = name === "req_to_token" || name === "kv_indices";
    const token = cell.column - (name === "kv_indices" ? beginOf(model, request) : 0);
    if (used && isSlot && value !== undefined)
      this.shared.select({ request: request.index, page: Math.floor(value / size), slot: value, token });
    else if (used && name === "block_kv_indices") this.shared.selectPage(value, request.index, cell.column);
    else this.shared.select({ request: request.index });
  }
}
