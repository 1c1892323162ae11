// A zoomable timeline: rows with labels on a canvas, an axis, a cursor and a strip of the whole. It shows a TimelineModel
// and knows nothing of what the rows mean.

import { framed, h } from "../dom";
import type { Disposer } from "../emitter";
import type { KeyBinding } from "../keys";
import type { Theme } from "../theme";
import type { Tooltip } from "../tooltip";
import { Gestures } from "./gestures";
import { barWithId, hitAt, spanOf, waitWithId } from "./hits";
import { TimelineLabels } from "./labels";
import { flexibleHeight, type Layout, layoutOf, rowAtY } from "./layout";
import { Minimap } from "./minimap";
import type { Hit, TimelineModel } from "./model";
import { Motion } from "./motion";
import { Picture } from "./picture";
import { Pyramid } from "./pyramid";
import { clampRange, panned, type Range, showing, span, zoomed } from "./range";

export interface TimelineOptions {
  label: string;
  theme: () => Theme;
  tooltip: Tooltip;
  /** Hover text of a span, or of a row where there is none. */
  describe: (hit: Hit | undefined, row: number, x: number) => string | undefined;
  /** What is in view has changed. */
  moved?: () => void;
  /** A span was pressed; undefined: nothing was there, at this place of the axis. */
  select: (hit: Hit | undefined, row: number, x: number) => void;
  selectRow: (row: number) => void;
}

const EMPTY: TimelineModel = {
  length: 1,
  rows: [],
  looks: [],
  links: {
    size: 0,
    fromRow: new Int32Array(0),
    fromX: new Float64Array(0),
    toRow: new Int32Array(0),
    toX: new Float64Array(0),
  },
  least: 1,
  format: String,
  axis: "",
  barLabel: () => "",
};
const REACH = 3; // px

export class Timeline {
  readonly element: HTMLElement;
  #model = EMPTY;
  #layout: Layout = layoutOf(EMPTY);
  #pyramids: Pyramid[][] = [];
  #range: Range = { start: 0, end: 1 };
  #cursor = 0;
  #selected: Hit | undefined;
  #marked: readonly Hit[] = [];
  #stressed: ReadonlySet<number> = new Set();
  #picture = new Picture(h("canvas", { class: "sg-timeline-canvas", "aria-hidden": "true" }));
  #labels: TimelineLabels;
  #plot: HTMLElement;
  #minimap: Minimap;
  #frame = framed(() => this.draw());
  #motion = new Motion((range) => this.setRange(range));

  constructor(
    private options: TimelineOptions,
    disposer: Disposer,
  ) {
    this.#plot = h(
      "div",
      { class: "sg-timeline-plot", role: "group", "aria-label": options.label },
      this.#picture.canvas,
    );
    this.#labels = new TimelineLabels(options.selectRow);
    this.#minimap = new Minimap(disposer, (middle) => this.centre(middle * this.#model.length));
    this.element = h(
      "div",
      { class: "sg-timeline" },
      this.#labels.element,
      this.#plot,
      h("div", { class: "sg-timeline-corner" }),
      this.#minimap.canvas,
    );
    new Gestures(this.#picture.canvas, disposer, {
      zoom: (factor, x) => this.zoom(factor, this.#unitAt(x)),
      pan: (pixels) => this.setRange(panned(this.#range, (pixels * span(this.#range)) / this.#width)),
      hover: (event, x, y) => this.#hover(event, x, y),
      leave: () => options.tooltip.hide(),
      press: (x, y) => options.select(this.#hit(x, y), rowAtY(this.#layout, y), this.#unitAt(x)),
      open: (x, y) => this.reveal(this.#hit(x, y)),
    });
    const resized = new ResizeObserver(() => this.redraw());
    resized.observe(this.#plot);
    disposer.add(() => {
      resized.disconnect();
      this.#frame.cancel();
      this.#motion.stop();
    });
  }

  get range(): Range {
    return this.#range;
  }

  /** Of the axis. */
  get unitsPerPixel(): number {
    return span(this.#range) / this.#width;
  }

  get model(): TimelineModel {
    return this.#model;
  }

  get #width(): number {
    return Math.max(1, this.#plot.clientWidth);
  }

  /** Shows another model; `keepRange` where its axis is the same. */
  load(model: TimelineModel, keepRange = false): void {
    this.#motion.stop(); // its goal is on the old axis
    this.#model = model;
    this.#layout = layoutOf(model);
    this.#pyramids = model.rows.map((row) => row.lanes.map((lane) => new Pyramid(lane, model.length)));
    this.#selected = undefined;
    this.#marked = [];
    this.#minimap.forget();
    this.#plot.setAttribute("aria-label", `${this.options.label} over ${model.axis}`);
    this.setRange(keepRange ? this.#range : this.#whole);
    this.#stressed = new Set();
    this.#labels.show(model, this.#layout);
  }

  /**
   * Lets flexible rows shrink and grow so that all of the element is at most `room` pixels high.
   *
   * @returns whether more room would make them higher
   */
  fit(room: number): boolean {
    const beside = this.element.offsetHeight - this.#layout.height;
    if (beside < 0) return false; // not laid out
    const height = flexibleHeight(this.#model, room - beside);
    const flexible = this.#model.rows.filter((row) => row.flexible);
    if (height === undefined) return false;
    const limited = height < (this.#model.heights?.most ?? height);
    if (flexible.every((row) => row.height === height)) return limited;
    for (const row of flexible) row.height = height;
    this.#layout = layoutOf(this.#model);
    this.#labels.show(this.#model, this.#layout);
    this.#labels.stress(this.#stressed);
    this.redraw();
    return limited;
  }

  setCursor(x: number, follow: boolean): void {
    if (x !== this.#cursor) this.options.tooltip.hide(); // it spoke of what has moved
    this.#cursor = Math.max(x, this.#whole.start); // before anything happens: at its beginning, however late that is
    if (follow) this.setRange(showing(this.#range, this.#cursor));
    this.redraw();
  }

  setSelected(hit: Hit | undefined): void {
    const now = this.#selected;
    if (now === hit || (now?.row === hit?.row && now?.layer === hit?.layer && now?.id === hit?.id)) return;
    this.#selected = hit;
    this.redraw();
  }

  /** Spans to outline besides the selected one. */
  mark(hits: readonly Hit[]): void {
    if (!hits.length && !this.#marked.length) return;
    this.#marked = hits;
    this.redraw();
  }

  /** Rows to highlight; none: all the same. */
  stress(rows: ReadonlySet<number>): void {
    if (rows.size === this.#stressed.size && [...rows].every((row) => this.#stressed.has(row))) return;
    this.#stressed = rows;
    this.#labels.stress(rows);
    this.redraw();
  }

  setRange(range: Range): void {
    const next = clampRange(range, this.#model.length, this.#model.least);
    if (next.start !== this.#range.start || next.end !== this.#range.end) {
      this.#range = next;
      this.options.moved?.();
    }
    this.element.dataset.range = `${Math.round(this.#range.start)} ${Math.round(this.#range.end)}`;
    this.redraw();
  }

  zoom(factor: number, at = (this.#range.start + this.#range.end) / 2): void {
    this.setRange(zoomed(this.#range, factor, at));
  }

  get #whole(): Range {
    return this.#model.fit ?? { start: 0, end: this.#model.length };
  }

  /** Shows everything that happens. */
  whole(): void {
    this.glide(this.#whole);
  }

  centre(x: number): void {
    this.setRange(panned(this.#range, x - (this.#range.start + this.#range.end) / 2));
  }

  /** Moves there smoothly. */
  glide(range: Range): void {
    this.#motion.start(this.#range, clampRange(range, this.#model.length, this.#model.least));
  }

  /** Zooms so that a span fills a third of the view. */
  reveal(hit: Hit | undefined): void {
    const found = hit && spanOf(this.#model, hit);
    if (!found) return;
    const size = found.end - found.start;
    this.glide({ start: found.start - size, end: found.end + size });
  }

  /** Scrolls a row into sight. */
  revealRow(row: number): void {
    this.#labels.reveal(row);
  }

  /** The bar of a row with this id. */
  find(row: number, id: number): Hit | undefined {
    return barWithId(this.#model, row, id);
  }

  /** The wait of a row with this id. */
  findWait(row: number, id: number): Hit | undefined {
    return waitWithId(this.#model, row, id);
  }

  redraw(): void {
    this.#frame.schedule();
  }

  /** Draws now, instead of with the next frame. */
  draw(): void {
    const width = this.#plot.clientWidth;
    if (!width || !this.#model.rows.length) return;
    const theme = this.options.theme();
    this.#picture.draw({
      model: this.#model,
      layout: this.#layout,
      pyramids: this.#pyramids,
      range: this.#range,
      cursor: this.#cursor,
      selected: this.#selected,
      marked: this.#marked,
      stressed: this.#stressed,
      width,
      theme,
    });
    this.#minimap.draw(this.#model, this.#pyramids, this.#range, this.#cursor, theme, width);
  }

  keys(): KeyBinding[] {
    return [
      { keys: ["+", "="], shown: "+", label: "zoom in", run: () => this.#zoomAtCursor(0.5) },
      { keys: ["-"], label: "zoom out", run: () => this.#zoomAtCursor(2) },
      { keys: ["0"], label: "show the whole", run: () => this.whole() },
      { keys: ["<", ","], shown: ",", label: "pan left", run: () => this.#panBy(-0.3) },
      { keys: [">", "."], shown: ".", label: "pan right", run: () => this.#panBy(0.3) },
    ];
  }

  #zoomAtCursor(factor: number): void {
    const { start, end } = this.#range;
    const inside = this.#cursor >= start && this.#cursor <= end;
    this.glide(zoomed(this.#range, factor, inside ? this.#cursor : (start + end) / 2));
  }

  #panBy(part: number): void {
    this.glide(panned(this.#range, part * span(this.#range)));
  }

  #unitAt(x: number): number {
    return this.#range.start + (x / this.#width) * span(this.#range);
  }

  #hit(x: number, y: number): Hit | undefined {
    const reach = REACH * this.unitsPerPixel;
    return hitAt(this.#model, this.#layout, this.#unitAt(x), y, reach);
  }

  #hover(event: PointerEvent, x: number, y: number): void {
    const row = rowAtY(this.#layout, y);
    const text = row < 0 ? undefined : this.options.describe(this.#hit(x, y), row, this.#unitAt(x));
    this.options.tooltip.show(text, event.clientX, event.clientY);
  }
}
