// PageTable: requests → token slots → pages, and the kernel that builds the page table, access by access.

import {
  type Context,
  Disposer,
  defineWidget,
  type Header,
  h,
  makeFrame,
  type Track,
  Transport,
  watchTheme,
} from "../core";
import { ArraysView } from "./arrays_view";
import { CommandRunner } from "./command_runner";
import { DetailsView } from "./details_view";
import { EditControls } from "./edit_controls";
import { Finder } from "./finder";
import { KernelSwitch } from "./kernel_switch";
import { LinksView } from "./links_view";
import { PageTableModel } from "./model";
import "./page_table.css";
import { Painter } from "./paint";
import { PoolView } from "./pool_view";
import { RequestsView } from "./requests_view";
import { Shared } from "./shared";
import { SourceView } from "./source_view";
import { describeMoments } from "./words";

function render({ el, source, selection, disposer }: Context): void {
  const started = performance.now();
  const transport = new Transport();
  const model = new PageTableModel(source);
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    keys: () => [
      { keys: ["ArrowUp"], label: "select the previous request", run: () => selectRequest(-1) },
      { keys: ["ArrowDown"], label: "select the next request", run: () => selectRequest(1) },
      { keys: ["/"], label: "find a request, a page or a slot", run: () => finder.focus() },
      { keys: [], shown: "Tab", label: "into a grid: arrows walk its cells, Enter selects" },
    ],
    onEscape: () => shared.select({}),
  });
  const theme = watchTheme(frame.root, disposer, () => redraw());
  const links = new LinksView();
  const painter = new Painter(theme);
  const shared = new Shared(model, painter, transport, frame.tooltip, selection, links.redraw);
  const requests = new RequestsView(shared, disposer);
  const pool = new PoolView(shared, disposer);
  const arrays = new ArraysView(shared, () => new Disposer());
  const listing = new SourceView(shared);
  const details = new DetailsView(shared, frame, disposer);
  const runner = new CommandRunner(source, frame);
  const kernels = new KernelSwitch(model, runner, disposer);
  const edits = new EditControls(shared, runner, frame, disposer);
  const finder = new Finder(shared, frame, disposer);
  frame.toolbar.append(kernels.element, ...(source.live ? edits.elements : []), finder.element);
  links.attach(shared, requests, pool);
  disposer.add(() => arrays.dispose());
  disposer.add(() => links.dispose());

  const picture = h(
    "div",
    { class: "pt-picture" },
    h("div", {}, h("div", { class: "sg-heading" }, "Requests: tokens in pages"), requests.grid.element),
    h("div", {}, h("div", { class: "sg-heading" }, "KV pool: pages"), pool.grid.element),
    links.element,
  );
  frame.view.append(picture, legend(), arrays.element, listing.element);
  frame.setPlaceholder({ kind: "loading", text: "Reading the page table." });

  const selectRequest = (step: number) => {
    const last = model.requests.length - 1;
    const now = selection.value.request ?? (step > 0 ? -1 : last + 1);
    if (last >= 0) shared.select({ request: Math.max(0, Math.min(last, now + step)) });
  };

  const redraw = () => {
    requests.grid.redraw();
    pool.grid.redraw();
    redrawStep();
  };

  /** What a step changes even where the page stays the same. */
  const redrawStep = () => {
    arrays.redraw();
    details.redraw();
    links.redraw();
  };

  /** After a step, or when the row of the trace it needs has arrived. */
  const showMoment = () => {
    const pageBefore = shared.nowPage;
    shared.updateMoment();
    listing.update();
    details.update();
    if (shared.nowPage === pageBefore) redrawStep();
    else redraw();
  };

  const follow = () => {
    arrays.follow();
    const { moment } = shared;
    const number = moment && model.pageNumberOfMoment(moment);
    if (moment && number !== undefined) requests.grid.reveal({ row: moment.program, column: number });
    if (shared.nowPage !== undefined) pool.grid.reveal(pool.cellOf(shared.nowPage));
  };

  disposer.add(
    transport.changed.on(() => {
      showMoment();
      follow();
    }),
  );
  disposer.add(
    model.arrived.on(() => {
      const missing = transport.position > 0 && !shared.moment;
      showMoment();
      redraw();
      if (missing && shared.moment) transport.refresh();
    }),
  );
  disposer.add(
    selection.on(() => {
      edits.update();
      details.update();
      const request = model.requests[selection.value.request ?? -1];
      if (request) {
        requests.grid.reveal({ row: request.index, column: 0 });
        arrays.showRequest(request);
      }
      if (selection.value.page !== undefined && selection.value.page <= model.pool.pages)
        pool.grid.reveal(pool.cellOf(selection.value.page));
      redraw();
    }),
  );
  disposer.add(
    model.loaded.on(() => {
      frame.setHeader(source.get<Header>("header"));
      frame.setPlaceholder(null);
      kernels.layout();
      edits.layout();
      requests.layout();
      pool.layout();
      arrays.layout();
      listing.layout();
      transport.load(track(model, shared));
      frame.root.dataset.ready = String(Math.round(performance.now() - started));
    }),
  );
  disposer.add(
    model.failed.on((error) => {
      if (model.requests.length) frame.notify("error", (error as Error).message);
      else
        frame.setPlaceholder({
          kind: "error",
          text: (error as Error).message,
          remedy: "Run the cell again.",
        });
    }),
  );
  frame.setHeader(source.get<Header>("header"));
  model.load();
}

function track(model: PageTableModel, shared: Shared): Track {
  const entry = model.kernel === "flashmla" ? "page" : "token";
  return {
    length: model.run.moments,
    granularities: [
      { id: "entry", label: `one ${entry}` },
      { id: "step", label: "vector step", stops: model.stepEnds },
      { id: "program", label: "request", stops: model.programEnds },
    ],
    marks: model.requests.map(({ name, index }) => ({
      at: model.programEnds[index] as number,
      label: `${name} done`,
    })),
    describe: (position) => describeMoments(model, shared.transport.previous, position),
    eventsOfSelection: () => momentsOfRequest(model, shared.selected.request),
  };
}

/** The positions right after each moment of a request's program. */
function momentsOfRequest(model: PageTableModel, request: number | undefined): Int32Array | undefined {
  if (request === undefined || request >= model.requests.length) return undefined;
  const from = request ? (model.programEnds[request - 1] as number) : 0;
  const count = (model.programEnds[request] as number) - from;
  return Int32Array.from({ length: count }, (_, i) => from + i + 1);
}

function legend(): HTMLElement {
  const item = (mark: string, text: string) =>
    h(
      "span",
      { class: "pt-legend-item" },
      h("span", { class: `pt-mark pt-mark-${mark}`, "aria-hidden": "true" }),
      text,
    );
  return h(
    "div",
    { class: "pt-legend" },
    item("read", "read in this step"),
    item("written", "written in this step"),
    item("empty", "padding, stale or unused"),
    item("free", "free page"),
    item("next", "free page next in line"),
    item("dummy", "dummy page 0"),
    item("changed", "changed by the last edit"),
  );
}

export default defineWidget({ name: "page_table", version: 1, render });
