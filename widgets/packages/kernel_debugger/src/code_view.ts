// Source and PTX side by side: the same place in both, which warps are where, and where runs stop.

import { type Disposer, format, h } from "@sglab/core";
import { ChainView } from "./chain_view";
import type { CodeModel, SourcePlace } from "./code_model";
import type { LineLook } from "./code_pane";
import { Links, type Side } from "./links";
import { Listing } from "./listing";
import type { DebuggerSource, Party, State, StopPoint } from "./protocol";
import { Standings } from "./standing";

/** Pixels of the mark of a finding's party. */
const PARTY_MARK = 21;

export interface CodeEvents {
  toggleSource: (file: number, line: number) => void;
  togglePtx: (line: number) => void;
  failed: (error: unknown) => void;
}

export class CodeView {
  readonly element: HTMLElement;
  readonly source: Listing;
  readonly ptx: Listing;
  #active: Side;
  #file = 0;
  #hovered: { side: Side; line: number } | undefined;
  #links: Links;
  #onPtx = new Standings();
  #onSource = new Standings();
  #parties: { pc: number; label: string }[] = [];
  #marksWidths = { source: 0, ptx: 0 };
  #state: State | undefined;
  #chosenFile = false;
  #chain: ChainView;
  #files = h("select", { class: "sg-select", "aria-label": "Source file" });

  constructor(
    source: DebuggerSource,
    private code: CodeModel,
    private events: CodeEvents,
    disposer: Disposer,
  ) {
    this.#links = new Links(code);
    this.#chain = new ChainView(code, (place) => void this.revealPlace(place));
    this.source = new Listing(
      source,
      disposer,
      "Source",
      { folded: false },
      {
        look: (line) => this.#lookOfSource(line),
        hover: (line) => this.#hover("source", line),
        cursor: (line) => this.#chose("source", line),
        toggle: (line) => events.toggleSource(this.#file, line),
        failed: events.failed,
        hasCode: (line) => code.hasCode(this.#file, line),
      },
    );
    this.ptx = new Listing(
      source,
      disposer,
      "PTX",
      { folded: true },
      {
        look: (line) => this.#lookOfPtx(line),
        hover: (line) => this.#hover("ptx", line),
        cursor: (line) => this.#chose("ptx", line),
        toggle: (line) => events.togglePtx(line),
        failed: events.failed,
        hasCode: (line) => code.pcAt(line) !== undefined,
      },
    );
    const { files, module, target, instructions } = code.info;
    this.#files.append(
      ...files.map(({ name, instructions: count, available }, i) =>
        h(
          "option",
          { value: i },
          `${name} · ${format.plural(count, "instruction")}${available ? "" : " · not found"}`,
        ),
      ),
    );
    this.#files.hidden = files.length < 2;
    disposer.listen(this.#files, "change", () => {
      this.#chosenFile = true;
      void this.showFile(Number(this.#files.value));
    });
    const only = files.length === 1 ? h("strong", {}, files[0]?.name ?? "") : undefined;
    this.source.head.append(
      h("span", { class: "kd-side-name" }, "Source"),
      only ?? this.#files,
      this.#chain.element,
    );
    this.ptx.head.append(
      h("span", { class: "kd-side-name" }, "PTX"),
      h(
        "span",
        { class: "kd-hint" },
        `${module} · ${target} · ${format.plural(instructions, "instruction")}`,
      ),
    );
    this.source.finishHead();
    this.ptx.finishHead();
    disposer.listen(this.source.element, "focusin", () => this.#activate("source"));
    disposer.listen(this.ptx.element, "focusin", () => this.#activate("ptx"));
    const found = code.hasSource;
    this.#active = found ? "source" : "ptx";
    this.element = h(
      "div",
      { class: "kd-codes", "data-only": found ? undefined : "ptx" },
      this.source.element,
      this.ptx.element,
    );
  }

  async open(): Promise<void> {
    await this.ptx.show("ptx", "ptx", "");
    if (this.code.info.files.length) await this.showFile(0);
    else
      await this.source.show(
        undefined,
        "cuda",
        "This PTX has no line information, so it leads to no source: nvcc writes it with -lineinfo.",
      );
  }

  /** The PTX beside the source, or the source alone. */
  showPtx(shown: boolean): void {
    if (shown) delete this.element.dataset.only;
    else this.element.dataset.only = "source";
    if (!shown) this.#active = "source";
    this.ptx.element.hidden = !shown;
    this.redraw();
  }

  get active(): Listing {
    return this.#active === "source" ? this.source : this.ptx;
  }

  /** What run-to-cursor gets. */
  get cursor(): { file: number; line: number } | { ptx: number } | undefined {
    const line = this.active.pane.cursor;
    if (!line) return undefined;
    return this.#active === "source" ? { file: this.#file, line } : { ptx: line };
  }

  toggleAtCursor(): void {
    const line = this.active.pane.cursor;
    if (!line) return;
    if (this.#active === "source") this.events.toggleSource(this.#file, line);
    else this.events.togglePtx(line);
  }

  #activate(side: Side): void {
    this.#active = side;
  }

  /** Returns what to wait for where the file was never shown. */
  showFile(file: number): Promise<void> | undefined {
    const info = this.code.info.files[file];
    if (!info) return undefined;
    this.#file = file;
    this.#files.value = String(file);
    const name = info.available ? `file${file}` : undefined;
    this.#marksWidths.source = 0;
    this.#stand();
    this.#links.link(this.#hovered, this.#file);
    const coming = this.source.show(name, info.language, info.note && `${info.path}: ${info.note}`);
    this.redraw();
    return coming;
  }

  /**
   * Shows a moment; `follow` scrolls to where the focused warp is: to `asked`, where that is one of the lines that lead
   * there, else to the line of its own.
   */
  show(state: State, follow: boolean, asked?: Partial<SourcePlace>): void {
    this.#state = state;
    this.#stand();
    const pc = this.#focusedPc;
    this.#chain.show(pc);
    if (follow && pc !== undefined) void this.reveal(pc, false, asked);
    this.redraw();
  }

  /** Where the focused group of lanes is; at the end, what ran last. */
  get #focusedPc(): number | undefined {
    const state = this.#state;
    if (!state?.focus) return state?.last?.[2];
    const [cta, warp, group] = state.focus;
    return state.warps.find((each) => each.cta === cta && each.warp === warp)?.groups[group]?.[0];
  }

  /** Scrolls both listings to an instruction. */
  async reveal(pc: number, moveCursor = true, asked?: Partial<SourcePlace>): Promise<void> {
    const line = this.code.ptxLine(pc);
    const chain = this.code.chain(pc);
    // a file that the reader chose stays while the warp is inside a call made there
    const inChosen = this.#chosenFile ? chain.find(({ file }) => file === this.#file) : undefined;
    const available = chain.filter(({ file }) => this.code.info.files[file]?.available);
    // the reader's code rather than the library that it calls
    const own = available.find(({ file }) => !this.code.info.files[file]?.library);
    const wanted = available.find(({ file, line }) => file === asked?.file && line === asked.line);
    const place = wanted ?? inChosen ?? own ?? available[0] ?? chain[0];
    if (moveCursor) this.ptx.pane.cursor = line;
    this.ptx.reveal(line);
    if (!place) return;
    if (place.file !== this.#file) {
      this.#chosenFile = false;
      const coming = this.showFile(place.file);
      if (coming) await coming;
      if (this.#file !== place.file) return; // the next step has come meanwhile
    }
    if (moveCursor) this.source.pane.cursor = place.line;
    this.source.reveal(place.line);
  }

  async revealPlace(place: { file?: number; line?: number; ptx?: number }): Promise<void> {
    if (place.ptx !== undefined) {
      this.ptx.pane.cursor = place.ptx;
      this.ptx.reveal(place.ptx);
      const pc = this.code.pcAt(place.ptx);
      if (pc !== undefined) await this.reveal(pc);
    } else if (place.file !== undefined && place.line !== undefined) {
      await this.showFile(place.file);
      this.source.pane.cursor = place.line;
      this.source.reveal(place.line);
      this.#chose("source", place.line);
    }
  }

  /** Marks the instructions of a finding's parties, until the next call. */
  markParties(parties: (Party | null)[]): void {
    this.#parties = parties.flatMap((party, i) =>
      party && party.pc >= 0 ? [{ pc: party.pc, label: i ? "2" : "1" }] : [],
    );
    this.#makeRoom();
    this.redraw();
  }

  redraw(): void {
    this.source.pane.redraw();
    this.ptx.pane.redraw();
  }

  drawNow(): void {
    this.source.pane.drawNow();
    this.ptx.pane.drawNow();
  }

  #stand(): void {
    this.#onPtx.show(this.#state, (pc) => ({ line: this.code.ptxLine(pc), inner: true, calls: [] }));
    this.#onSource.show(this.#state, (pc) => {
      const chain = this.code.chain(pc);
      const [place, ...outer] = chain.filter(({ file }) => file === this.#file);
      return place && { line: place.line, inner: place === chain[0], calls: outer.map(({ line }) => line) };
    });
    this.#makeRoom();
  }

  /** Widens the column of marks as they come; it does not shrink again, so that the code does not move. */
  #makeRoom(): void {
    const widths = this.#marksWidths;
    widths.source = Math.max(widths.source, this.#onSource.width);
    widths.ptx = Math.max(widths.ptx, this.#onPtx.width);
    const parties = PARTY_MARK * this.#parties.length;
    this.source.pane.marksWidth = widths.source + parties;
    this.ptx.pane.marksWidth = widths.ptx + parties;
  }

  #hover(side: Side, line: number | undefined): void {
    this.#hovered = line === undefined ? undefined : { side, line };
    this.#links.link(this.#hovered, this.#file);
    this.redraw();
  }

  /** A line was chosen: the other listing scrolls to what belongs to it. */
  #chose(side: Side, line: number): void {
    this.#active = side;
    this.#links.link({ side, line }, this.#file);
    if (side === "source") {
      const [first] = this.code.ptxOf({ file: this.#file, line });
      if (first !== undefined) this.ptx.reveal(first);
    } else {
      const pc = this.code.pcAt(line);
      const place = pc === undefined ? undefined : this.#placeInSight(pc);
      if (place) this.source.reveal(place.line);
      if (pc !== undefined) this.#chain.show(pc);
    }
    this.redraw();
  }

  #placeInSight(pc: number): SourcePlace | undefined {
    return this.code.chain(pc).find(({ file }) => file === this.#file);
  }

  #lookOfPtx(line: number): LineLook {
    const pc = this.code.pcAt(line);
    return {
      ...this.#onPtx.look(line),
      linked: this.#links.ptx.has(line),
      stop: this.#stopAt(
        ({ place, kind, lines }) => place.ptx === line || (kind === "code" && lines.includes(line)),
      ),
      hasCode: pc !== undefined,
      failed: Boolean(this.#state?.failed && this.#state.failure?.ptxLine === line),
      marks: this.#marks(this.#onPtx, line, ({ pc }) => this.code.ptxLine(pc) === line),
    };
  }

  #lookOfSource(line: number): LineLook {
    const here = ({ pc }: { pc: number }) => this.#placeInSight(pc)?.line === line;
    const failedPc = this.#state?.failed ? this.code.pcAt(this.#state.failure?.ptxLine ?? 0) : undefined;
    return {
      ...this.#onSource.look(line),
      linked: this.#links.source.has(line),
      stop: this.#stopAt(({ place }) => place.file === this.#file && place.line === line),
      hasCode: this.code.hasCode(this.#file, line),
      failed: failedPc !== undefined && here({ pc: failedPc }),
      marks: this.#marks(this.#onSource, line, here),
    };
  }

  #stopAt(here: (stop: StopPoint) => boolean): LineLook["stop"] {
    const found = this.#state?.stops.filter(here) ?? [];
    return found.length ? (found.some(({ enabled }) => enabled) ? "on" : "off") : "";
  }

  #marks(standings: Standings, line: number, here: (party: { pc: number }) => boolean): LineLook["marks"] {
    const parties = this.#parties.filter(here).map(({ label }) => label);
    const mark = (label: string) =>
      h("span", { class: "kd-party-mark", title: `party ${label} of the finding` }, label);
    return {
      key: `${parties};${standings.key(line)}`,
      make: () => [...parties.map(mark), ...standings.marks(line)],
    };
  }
}
