// One of the two listings: a text, its colours, which warps are on which line, and the finder above it.

import { type Disposer, h } from "@sglab/core";
import { CodePane, type LineLook } from "./code_pane";
import { linesWithCode } from "./fold";
import { type Language, type LineState, type Piece, pieces } from "./highlight";
import type { DebuggerSource } from "./protocol";
import { TextLines } from "./texts";

export interface ListingEvents {
  look: (line: number) => LineLook;
  hover: (line: number | undefined) => void;
  cursor: (line: number) => void;
  toggle: (line: number) => void;
  failed: (error: unknown) => void;
  hasCode: (line: number) => boolean;
}

export class Listing {
  readonly element: HTMLElement;
  readonly head = h("div", { class: "kd-pane-head" });
  readonly pane: CodePane;
  #texts = new Map<string, TextLines>();
  #text: TextLines | undefined;
  #language: Language = "ptx";
  /** What is open at the beginning of each line known so far. */
  #states: LineState[] = [""];
  #note = h("p", { class: "kd-note" });
  #finder = h("form", { class: "kd-finder", hidden: true, role: "search" });
  #query = h("input", { class: "sg-field", type: "text", spellcheck: "false" });
  #found = h("span", { class: "kd-found", role: "status" });
  #fold = h("button", { type: "button", class: "sg-button kd-small kd-fold" }, "only code");
  #folded = false;
  #revealed = 1;

  constructor(
    private source: DebuggerSource,
    disposer: Disposer,
    label: string,
    options: { folded: boolean },
    private events: ListingEvents,
  ) {
    this.pane = new CodePane(
      {
        label,
        showGaps: !options.folded,
        has: (line) => this.#text?.line(line) !== undefined,
        pieces: (line) => this.#pieces(line),
        look: events.look,
        hover: events.hover,
        cursor: events.cursor,
        toggle: events.toggle,
      },
      disposer,
    );
    this.#query.setAttribute("aria-label", `Search in ${label}`);
    this.#fold.title = `Hide the lines of ${label} without code, or show them (z)`;
    disposer.listen(this.#fold, "click", () => {
      this.folded = !this.folded;
    });
    this.folded = options.folded;
    const next = h("button", { type: "submit", class: "sg-button" }, "next");
    const close = h("button", { type: "button", class: "sg-button", "aria-label": "Close the search" }, "✕");
    this.#finder.append(this.#query, next, this.#found, close);
    disposer.listen(this.#finder, "submit", (event) => {
      event.preventDefault();
      void this.#search();
    });
    disposer.listen(close, "click", () => this.closeFinder());
    disposer.listen(this.#finder, "keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.closeFinder();
    });
    this.element = h(
      "section",
      { class: "kd-listing", "aria-label": label },
      this.head,
      this.#finder,
      this.#note,
      this.pane.element,
    );
  }

  get name(): string {
    return this.#text?.name ?? "";
  }

  /** Ends the head, after what others have put there. */
  finishHead(): void {
    this.head.append(this.#fold);
  }

  /** Scrolls to a line where it is out of sight. */
  reveal(line: number): void {
    this.#revealed = line;
    this.pane.reveal(line);
  }

  /** The text of a line, if it has come. */
  textOf(line: number): string | undefined {
    return this.#text?.line(line);
  }

  get lineCount(): number {
    return this.#text?.count ?? 0;
  }

  /**
   * Shows another text; without a name, only the note. Returns what to wait for where it was never open: a step that goes
   * back to a text shows it at once, and lays it out once.
   */
  show(name: string | undefined, language: Language, note: string): Promise<void> | undefined {
    this.#note.textContent = note;
    this.#note.hidden = note === "";
    this.pane.element.hidden = name === undefined;
    if (name === undefined) {
      this.#text = undefined;
      return undefined;
    }
    if (this.name === name) return undefined;
    const came = () => this.pane.textCame();
    const text = this.#texts.get(name) ?? new TextLines(this.source, name, came, this.events.failed);
    this.#texts.set(name, text);
    this.#text = text;
    this.#language = language;
    this.#states = [""];
    const layout = () => {
      if (this.#text === text) this.#layout();
    };
    if (!text.isOpen) return text.open().then(layout);
    layout();
    return undefined;
  }

  get folded(): boolean {
    return this.#folded;
  }

  /** Hides lines without code, or shows them again. */
  set folded(folded: boolean) {
    this.#folded = folded;
    this.#fold.setAttribute("aria-pressed", String(folded));
    this.#layout();
    this.pane.reveal(this.#revealed);
  }

  #layout(): void {
    const count = this.lineCount;
    const isLabel = (line: number) =>
      this.#language === "ptx" && /^\$\w+:/.test(this.#text?.line(line) ?? "");
    const around = this.#language === "ptx" ? 0 : 1;
    const lines = this.#folded ? linesWithCode(count, this.events.hasCode, isLabel, around) : undefined;
    this.pane.setLines(count, lines);
  }

  #pieces(line: number): Piece[] | undefined {
    const text = this.#text?.line(line);
    if (text === undefined) return undefined;
    return pieces(untabbed(text, this.#language), this.#language, this.#stateBefore(line)).pieces;
  }

  /** PTX has no comment that spans lines; in sources one may have begun anywhere above. */
  #stateBefore(line: number): LineState {
    if (this.#language === "ptx") return "";
    const states = this.#states;
    while (states.length < line) {
      const text = this.#text?.line(states.length);
      if (text === undefined) return "";
      states.push(pieces(text, this.#language, states[states.length - 1] as LineState).after);
    }
    return states[line - 1] as LineState;
  }

  openFinder(): void {
    this.#finder.hidden = false;
    this.#query.focus();
    this.#query.select();
  }

  closeFinder(): void {
    if (this.#finder.hidden) return;
    this.#finder.hidden = true;
    this.#found.textContent = "";
    this.pane.focus();
  }

  /** A number goes to that line; anything else to the next line that has it, ignoring case. */
  async #search(): Promise<void> {
    const query = this.#query.value.trim();
    if (!query || !this.#text) return;
    const number = /^:?(\d+)$/.exec(query);
    if (number) return this.#arrive(Math.min(this.lineCount, Math.max(1, Number(number[1]))), "");
    const lines = await this.#text.all();
    const wanted = query.toLowerCase();
    const hits = lines.flatMap((text, i) => (text.toLowerCase().includes(wanted) ? [i + 1] : []));
    const hit = hits.find((line) => line > this.pane.cursor) ?? hits[0];
    if (hit === undefined) this.#found.textContent = "not found";
    else this.#arrive(hit, `${hits.indexOf(hit) + 1} of ${hits.length}`);
  }

  #arrive(line: number, words: string): void {
    this.#found.textContent = words;
    if (this.#folded && !this.pane.shows(line)) this.folded = false;
    this.pane.cursor = line;
    this.reveal(line);
    this.events.cursor(line);
  }
}

/** Compilers indent all of PTX by a tab, and put one after each opcode, where nothing lines up with anything. */
function untabbed(text: string, language: Language): string {
  if (language !== "ptx") return text.replaceAll("\t", "    ");
  return text.replace(/^\t+/, (tabs) => "  ".repeat(tabs.length)).replace(/ *\t/g, " ");
}
