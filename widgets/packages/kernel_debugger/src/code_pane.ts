// A listing of any length: only the lines in sight are in the page. Line numbers count from 1.

import { type Disposer, framed, h, uniqueId } from "@sglab/core";
import type { Piece } from "./highlight";
import { type Kept, KeptChildren } from "./kept_children";

export const LINE_HEIGHT = 18;
const BEYOND = 3; // lines drawn outside of the window

export interface LineLook {
  /** Marks of the warps that are here; `key` distinguishes them from others. */
  marks: { key: string; make: () => HTMLElement[] };
  /** "": the focused warp is not here; "now": the focused warp; "call": it is inside a call made here. */
  current: "" | "now" | "call";
  /** Whether the instruction that was executed last is here. */
  ran: boolean;
  linked: boolean;
  stop: "" | "on" | "off";
  hasCode: boolean;
  failed: boolean;
  /** What a screen reader hears besides number and text. */
  spoken: string;
}

export interface PaneOptions {
  label: string;
  /** Whether a thin rule shows where lines are hidden. */
  showGaps: boolean;
  /** Whether a line's text has come. */
  has: (line: number) => boolean;
  pieces: (line: number) => Piece[] | undefined;
  look: (line: number) => LineLook;
  hover: (line: number | undefined) => void;
  cursor: (line: number) => void;
  /** A click in the gutter, or b. */
  toggle: (line: number) => void;
}

export class CodePane {
  readonly element: HTMLElement;
  #rows = h("div", { class: "kd-rows", role: "presentation" });
  #space = h("div", { class: "kd-space", role: "presentation" }, this.#rows);
  #box: HTMLElement;
  #kept = new KeptChildren(this.#rows);
  /** Where the box is scrolled to and how high it is: to ask the box would force a layout. */
  #top = 0;
  #height = 0;
  /** The line that was revealed last, until the reader scrolls: it stays in sight when the box changes its size. */
  #followed = 0;
  /** Counts texts, so that no line of one is taken for another's. */
  #texts = 0;
  #id = uniqueId("code");
  #lines: Int32Array | undefined;
  #count = 0;
  #cursor = 0;
  #hovered: number | undefined;
  /** The line that the button is down on: it is drawn anew after the click, which a row that goes would take along. */
  #pressed: number | undefined;
  #scrolls = false;
  #frame = framed(() => this.#draw());

  constructor(
    private options: PaneOptions,
    disposer: Disposer,
  ) {
    this.#box = h(
      "div",
      { class: "kd-code", tabindex: 0, role: "listbox", "aria-label": options.label },
      this.#space,
    );
    this.element = this.#box;
    const box = this.#box;
    disposer.listen(box, "scroll", () => {
      this.#holdGutters(box.scrollLeft > 0);
      if (Math.round(box.scrollTop) === this.#top) return; // a step has revealed its line, and drawn it
      this.#top = box.scrollTop;
      this.redraw();
    });
    // not on "scroll": boxes that change their size scroll, too
    for (const kind of ["wheel", "touchmove"] as const)
      disposer.listen(box, kind, () => this.#leave(), { passive: true });
    disposer.listen(box, "pointerdown", (event) => {
      if (event.target === box) this.#leave(); // one of its scroll bars
      this.#pressed = this.#lineOf(event);
    });
    const release = () => {
      if (this.#pressed === undefined) return;
      this.#pressed = undefined;
      this.redraw();
    };
    for (const kind of ["pointerup", "pointercancel"] as const) {
      window.addEventListener(kind, release);
      disposer.add(() => window.removeEventListener(kind, release));
    }
    disposer.listen(box, "pointermove", (event) => this.#hover(event));
    disposer.listen(box, "pointerleave", () => this.#hoverLine(undefined));
    disposer.listen(box, "click", (event) => this.#click(event));
    disposer.listen(box, "keydown", (event) => this.#key(event));
    const observer = new ResizeObserver(() => {
      this.#height = box.clientHeight;
      this.#top = box.scrollTop;
      if (this.#followed) this.reveal(this.#followed);
      else this.redraw();
    });
    observer.observe(box);
    disposer.add(() => observer.disconnect());
    disposer.add(() => this.#frame.cancel());
  }

  /** Shows a text of `count` lines; `lines`, where given, are the only ones shown, ascending. */
  setLines(count: number, lines: Int32Array | undefined): void {
    this.#count = count;
    this.#lines = lines;
    this.#followed = 0;
    this.#texts++;
    this.#space.style.height = `${this.rowCount * LINE_HEIGHT}px`;
    this.#box.style.setProperty("--kd-digits", String(Math.max(2, String(count).length)));
    this.redraw();
  }

  /** How many pixels the marks of a line may take. */
  set marksWidth(width: number) {
    const text = `${width}px`;
    if (this.#box.style.getPropertyValue("--kd-marks") !== text)
      this.#box.style.setProperty("--kd-marks", text);
  }

  get rowCount(): number {
    return this.#lines?.length ?? this.#count;
  }

  /** Whether a line is not hidden. */
  shows(line: number): boolean {
    return this.#lineAt(this.#rowOf(line)) === line;
  }

  get cursor(): number {
    return this.#cursor;
  }

  set cursor(line: number) {
    this.#cursor = line;
    this.redraw();
  }

  /** More of the text has come: colours may be others. */
  textCame(): void {
    this.#texts++;
    this.redraw();
  }

  redraw(): void {
    this.#frame.schedule();
  }

  drawNow(): void {
    this.#frame.now();
  }

  /** Scrolls only where the line is out of sight, and then to the middle. */
  reveal(line: number): void {
    this.#followed = line;
    this.#height ||= this.#box.clientHeight;
    const top = this.#rowOf(line) * LINE_HEIGHT;
    if (top < this.#top + LINE_HEIGHT || top + 2 * LINE_HEIGHT > this.#top + this.#height) {
      const most = Math.max(0, this.rowCount * LINE_HEIGHT - this.#height);
      this.#top = Math.max(0, Math.min(most, Math.round(top - (this.#height - LINE_HEIGHT) / 2)));
      if (!this.#scrolls) queueMicrotask(() => this.#scroll());
      this.#scrolls = true;
    }
    this.redraw();
  }

  /** Once everything of this moment is in the page: scrolling lays it out. */
  #scroll(): void {
    this.#scrolls = false;
    this.#box.scrollTop = this.#top;
    this.#box.scrollLeft = 0;
  }

  #leave(): void {
    this.#followed = 0;
    this.#holdGutters(true);
  }

  /** Line numbers stay while the code scrolls sideways. Each that could is a layer, which every step would pay for. */
  #holdGutters(hold: boolean): void {
    this.#box.toggleAttribute("data-sideways", hold);
  }

  focus(): void {
    this.#box.focus({ preventScroll: true });
  }

  #lineAt(row: number): number {
    return this.#lines ? (this.#lines[row] ?? 0) : row + 1;
  }

  /** The row of a line; of a hidden line, the one that precedes it. */
  #rowOf(line: number): number {
    if (!this.#lines) return line - 1;
    let low = 0;
    let high = this.#lines.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#lines[middle] as number) <= line) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, low - 1);
  }

  #draw(): void {
    if (!this.#height) return;
    const first = Math.max(0, Math.floor(this.#top / LINE_HEIGHT) - BEYOND);
    const last = Math.min(this.rowCount, Math.ceil((this.#top + this.#height) / LINE_HEIGHT) + BEYOND);
    const rows: Kept[] = [];
    let cursorShown = false;
    for (let row = first; row < last; row++) {
      const line = this.#lineAt(row);
      const look = this.options.look(line);
      const { current, ran, linked, stop, hasCode, failed, marks, spoken } = look;
      const selected = line === this.#cursor;
      const flags = [selected, current, ran, linked, stop, hasCode, failed, this.options.has(line)];
      const stamp = [this.#texts, row, ...flags, marks.key, spoken].join("|");
      rows.push({ key: String(line), stamp, make: () => this.#row(line, row, look) });
      cursorShown ||= selected;
    }
    this.#rows.style.top = `${first * LINE_HEIGHT}px`;
    this.#kept.show(rows, this.#pressed?.toString());
    if (cursorShown) this.#box.setAttribute("aria-activedescendant", `${this.#id}-${this.#cursor}`);
    else this.#box.removeAttribute("aria-activedescendant");
  }

  #row(line: number, row: number, look: LineLook): HTMLElement {
    const pieces = this.options.pieces(line);
    const text = h("code", { class: "kd-text" });
    for (const { text: part, kind } of pieces ?? [])
      text.append(kind ? h("span", { class: `kd-${kind}` }, part) : part);
    // what most lines lack is not there: a step lays out dozens of lines
    const stop = look.stop ? h("span", { class: "kd-stop", "data-stop": look.stop }, "●") : undefined;
    const number = h("span", { class: "kd-line-number" }, String(line));
    const marks = look.marks.make();
    const gutter = h(
      "span",
      { class: "kd-gutter", "data-marked": Boolean(stop || marks.length) },
      stop,
      number,
      marks.length ? h("span", { class: "kd-marks" }, ...marks) : undefined,
    );
    const previous = row > 0 ? this.#lineAt(row - 1) : line - 1;
    return h(
      "div",
      {
        class: "kd-line",
        id: `${this.#id}-${line}`,
        role: "option",
        "aria-selected": String(line === this.#cursor),
        "aria-posinset": row + 1,
        "aria-setsize": this.rowCount,
        "data-line": line,
        "data-current": look.current,
        "data-ran": look.ran,
        "data-linked": look.linked,
        "data-code": String(look.hasCode),
        "data-failed": look.failed,
        "data-gap": this.options.showGaps && previous !== line - 1,
      },
      gutter,
      text,
      look.spoken ? h("span", { class: "sg-spoken" }, look.spoken) : undefined,
    );
  }

  #lineOf(event: Event): number | undefined {
    const row = (event.target as Element).closest<HTMLElement>(".kd-line");
    return row ? Number(row.dataset.line) : undefined;
  }

  #hover(event: PointerEvent): void {
    this.#hoverLine(this.#lineOf(event));
  }

  #hoverLine(line: number | undefined): void {
    if (line === this.#hovered) return;
    this.#hovered = line;
    this.options.hover(line);
  }

  #click(event: MouseEvent): void {
    const line = this.#lineOf(event);
    if (line === undefined) return;
    const inGutter = (event.target as Element).closest(".kd-stop, .kd-line-number");
    this.#cursor = line;
    if (inGutter) this.options.toggle(line);
    else this.options.cursor(line);
    this.redraw();
  }

  #key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const page = Math.max(1, Math.floor(this.#box.clientHeight / LINE_HEIGHT) - 2);
    const moves: Record<string, number> = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page };
    const move = moves[event.key];
    if (move === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const row = Math.max(0, Math.min(this.rowCount - 1, this.#rowOf(this.#cursor || 1) + move));
    this.#cursor = this.#lineAt(row);
    this.reveal(this.#cursor);
    this.#frame.now();
    this.options.cursor(this.#cursor);
  }
}
