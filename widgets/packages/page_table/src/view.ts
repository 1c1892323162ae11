// The widget's views side by side, and what each event redraws.

import {
  type Context,
  Disposer,
  type Frame,
  failure,
  h,
  makeFrame,
  requestsOf,
  Tabs,
  Transport,
  watchTheme,
  whenInSight,
} from "@sglab/core";
import { ArraysView } from "./arrays_view";
import { CommandRunner } from "./command_runner";
import { DetailsView } from "./details_view";
import { EditControls } from "./edit_controls";
import { Finder } from "./finder";
import { divide } from "./heights";
import { KernelSwitch } from "./kernel_switch";
import { LEGEND } from "./legend";
import { LinksView } from "./links_view";
import { PageTableModel } from "./model";
import { Painter } from "./paint";
import { PoolView } from "./pool_view";
import type { PAGE_TABLE } from "./protocol";
import { RequestsView } from "./requests_view";
import { Shared } from "./shared";
import { SourceView } from "./source_view";
import { trackOf } from "./track";

const BORDER = 1; // px
const LISTED = 120; // px of the kernel's source that the requests leave
const TOUR = [
  { key: "ArrowRight", text: "to step: the line below says what a thread of the kernel reads and writes." },
  { key: "]", text: "to go to the end of a vector step, which all lanes take together; [ goes back." },
  { key: " ", text: "to play, and again to stop.", presses: 2 },
  { key: "ArrowDown", text: "to select a request: its pages stand out in every picture." },
  { key: "Escape", text: "to clear the selection. ? lists all keys." },
];

export class PageTableView {
  #started = performance.now();
  #transport = new Transport();
  #model: PageTableModel;
  #frame: Frame;
  #shared: Shared;
  #requests: RequestsView;
  #pool: PoolView;
  #arrays: ArraysView;
  #listing: SourceView;
  #details: DetailsView;
  #kernels: KernelSwitch;
  #edits: EditControls;
  #finder: Finder;
  #links = new LinksView();
  /** The position whose moment the views have scrolled to. */
  #followed = -1;
  #parts: { picture: HTMLElement; arrays: HTMLElement } | undefined;

  constructor(private context: Context<typeof PAGE_TABLE>) {
    const { el, source, disposer } = context;
    const selection = requestsOf(() => source.get("names"), context.selection);
    const model = new PageTableModel(source);
    const frame = makeFrame(el, disposer, {
      source,
      transport: this.#transport,
      keys: () => this.#keys(),
      onEscape: () => this.#shared.select({}),
      tour: { name: "page_table", steps: TOUR },
    });
    const painter = new Painter(watchTheme(frame.root, disposer, () => this.#redraw()));
    const shared = new Shared(model, painter, this.#transport, frame.tooltip, selection, this.#links.redraw);
    const runner = new CommandRunner(source, frame);
    this.#model = model;
    this.#frame = frame;
    this.#shared = shared;
    this.#requests = new RequestsView(shared, disposer);
    this.#pool = new PoolView(shared, disposer);
    this.#arrays = new ArraysView(shared, () => new Disposer());
    this.#listing = new SourceView(shared);
    this.#details = new DetailsView(shared, frame, disposer);
    this.#kernels = new KernelSwitch(model, runner, disposer);
    this.#edits = new EditControls(shared, runner, frame, disposer);
    this.#finder = new Finder(shared, frame, disposer);
    this.#links.attach(shared, this.#requests, this.#pool);
    disposer.add(() => this.#arrays.dispose());
    disposer.add(() => this.#links.dispose());
    this.#arrange();
    this.#listen();
    model.load();
  }

  #arrange(): void {
    const { source } = this.context;
    const titled = (title: string, element: HTMLElement) =>
      h("div", {}, h("div", { class: "sg-heading" }, title), element);
    const picture = h(
      "div",
      { class: "pt-picture" },
      titled("Requests: tokens in pages", this.#requests.grid.element),
      titled("KV pool: pages", this.#pool.grid.element),
      this.#links.element,
    );
    const [allocate, ...edits] = source.live ? this.#edits.elements : [];
    this.#frame.toolbar.append(this.#kernels.element, ...(allocate ? [allocate] : []), this.#finder.element);
    this.#frame.more.append(...edits);
    this.#frame.setLegend(LEGEND());
    const tabs = new Tabs(
      [
        { id: "arrays", label: "Arrays", panel: this.#arrays.element },
        { id: "source", label: "Source of the kernel", panel: this.#listing.element },
      ],
      "What the kernel reads, writes and is",
      this.context.disposer,
    );
    this.#frame.root.classList.add("pt-widget");
    this.#frame.view.classList.add("pt-view");
    this.#frame.details.classList.add("pt-details");
    this.#frame.view.append(picture, tabs.element);
    this.#parts = { picture, arrays: tabs.element };
    const resized = new ResizeObserver(() => this.#divide());
    for (const each of [this.#frame.root, this.#frame.view, this.#frame.more, this.#arrays.element])
      resized.observe(each);
    this.context.disposer.add(() => resized.disconnect());
    this.#frame.setHeader(source.get("header"));
    this.#frame.setPlaceholder({ kind: "loading", text: "Reading the page table." });
  }

  #listen(): void {
    const { source, selection, disposer } = this.context;
    disposer.add(this.#model.loaded.on(() => this.#showBatch()));
    disposer.add(this.#model.arrived.on(() => this.#showArrived()));
    disposer.add(this.#model.failed.on((error) => this.#showFailure(error as Error)));
    const inSight = whenInSight(this.#frame.root, disposer);
    disposer.add(selection.on(() => inSight("selection", () => this.#showSelection())));
    disposer.add(
      this.#transport.changed.on(() => {
        this.#showMoment();
        if (this.#transport.position !== this.#followed) this.#follow();
      }),
    );
    // The batch was edited in another cell: only a widget that is on the page reads it again.
    source.onChange("stale", () => source.call("catch_up", {}).catch((error) => this.#showFailure(error)));
  }

  #keys() {
    return [
      { keys: ["ArrowUp"], label: "select the previous request", run: () => this.#selectRequest(-1) },
      { keys: ["ArrowDown"], label: "select the next request", run: () => this.#selectRequest(1) },
      { keys: ["/"], label: "find a request, a page or a slot", run: () => this.#finder.focus() },
      { keys: [], shown: "Tab", label: "into a grid: arrows walk its cells, Enter selects" },
    ];
  }

  #selectRequest(step: number): void {
    const last = this.#model.requests.length - 1;
    const now = this.#shared.selected.request ?? (step > 0 ? -1 : last + 1);
    if (last >= 0) this.#shared.select({ request: Math.max(0, Math.min(last, now + step)) });
  }

  #showBatch(): void {
    this.#frame.setHeader(this.context.source.get("header"));
    this.#frame.setPlaceholder(null);
    this.#kernels.layout();
    this.#edits.layout();
    this.#requests.layout();
    this.#pool.layout();
    this.#arrays.layout();
    this.#listing.layout();
    this.#divide();
    // what was selected stays in sight, such as the request that an edit has brought; else what the step dealt with
    const { request } = this.#shared.selected;
    this.#followed = request === undefined ? -1 : this.#transport.position;
    this.#transport.load(trackOf(this.#model, this.#shared));
    this.#showSelection();
    this.#frame.root.dataset.ready = String(Math.round(performance.now() - this.#started));
  }

  /** Gives the rows of requests and arrays, or the source in their place, the height that there is. */
  #divide(): void {
    const { count, rows, row, seen } = this.#arrays.matrices;
    const { grid } = this.#requests;
    if (!this.#parts || !this.#model.ready || !this.#frame.view.offsetHeight) return;
    const picture = this.#parts.picture.getBoundingClientRect();
    const arrays = this.#parts.arrays.getBoundingClientRect();
    const { cellHeight } = grid.geometry;
    const listed = this.#listing.height; // 0 while the arrays are shown
    const room = this.#frame.room();
    const beside = arrays.left >= picture.right;
    const pictures = picture.height - grid.element.offsetHeight + 2 * BORDER;
    const heights = divide({
      room,
      beside,
      pictures,
      arrays: listed ? arrays.height - listed + LISTED : arrays.height - seen,
      requests: this.#model.requests.length,
      request: cellHeight,
      matrices: listed ? 0 : count,
      rows,
      row,
    });
    const above = beside ? 0 : pictures + heights.requests;
    if (listed) this.#listing.height = room - above - (arrays.height - listed);
    const keepsRows = listed || heights.rows === this.#arrays.rows;
    if (heights.requests === this.#requests.room && keepsRows) return;
    this.#requests.room = heights.requests;
    if (!listed) this.#arrays.rows = heights.rows;
    this.#requests.layout();
    this.#arrays.layout();
  }

  #showArrived(): void {
    const missing = this.#transport.position > 0 && !this.#shared.moment;
    this.#showMoment();
    this.#redraw();
    if (missing && this.#shared.moment) this.#transport.refresh();
  }

  #showFailure(error: Error): void {
    if (this.#model.ready) this.#frame.notify("error", error.message);
    else this.#frame.setPlaceholder(failure(this.context.source, error));
  }

  #showSelection(): void {
    const { request: index, page } = this.#shared.selected;
    this.#edits.update();
    this.#details.update();
    const request = this.#model.requests[index ?? -1];
    if (request) {
      this.#requests.grid.reveal({ row: request.index, column: 0 });
      this.#arrays.showSelection(request);
    }
    if (page !== undefined && page <= this.#model.pool.pages) this.#pool.grid.reveal(this.#pool.cellOf(page));
    this.#redraw();
  }

  /** After a step, or when the row of the trace it needs has arrived. */
  #showMoment(): void {
    const pageBefore = this.#shared.nowPage;
    this.#shared.updateMoment();
    this.#listing.update();
    this.#details.update();
    if (this.#shared.nowPage === pageBefore) this.#redrawStep();
    else this.#redraw();
  }

  /** Scrolls every view to what the last moment dealt with. */
  #follow(): void {
    this.#arrays.follow();
    const { moment, nowPage } = this.#shared;
    this.#followed = moment ? this.#transport.position : -1;
    const number = moment && this.#model.pageNumberOfMoment(moment);
    if (moment && number !== undefined) this.#requests.grid.reveal({ row: moment.program, column: number });
    if (nowPage !== undefined) this.#pool.grid.reveal(this.#pool.cellOf(nowPage));
  }

  #redraw(): void {
    this.#requests.grid.redraw();
    this.#pool.grid.redraw();
    this.#redrawStep();
  }

  /** What a step changes even where the page stays the same. */
  #redrawStep(): void {
    this.#arrays.redraw();
    this.#details.redraw();
    this.#links.redraw();
  }
}
