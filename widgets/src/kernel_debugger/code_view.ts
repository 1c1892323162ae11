// Source and PTX side by side: the same place in both, who stands where, and where runs stop.

import { type Disposer, h, type Source } from "../core";
import type { CodeModel, SourcePlace } from "./code_model";
import type { LineLook } from "./code_pane";
import { Listing } from "./listing";
import type { Party, State, Warp } from "./protocol";
import { warpLabel, warpMark, warpName } from "./warp_looks";

const SHOWN_MARKS = 3;

export interface CodeEvents {
  toggleSource: (file: number, line: number) => void;
  togglePtx: (line: number) => void;
  failed: (error: unknown) => void;
}

interface Standing {
  warp: Warp;
  /** Whether the line is the instruction's own, or that of a call it is inside of. */
  inner: boolean;
  focused: boolean;
}

type Side = "source" | "ptx";

export class CodeView {
  readonly element: HTMLElement;
  readonly source: Listing;
  readonly ptx: Listing;
  #active: Side;
  #file = 0;
  #hovered: { side: Side; line: number } | undefined;
  #linkedSource = new Set<number>();
  #linkedPtx = new Set<number>();
  #onPtx = new Map<number, Standing[]>();
  #onSource = new Map<number, Standing[]>();
  #parties: { pc: number; label: string }[] = [];
  #state: State | undefined;
  #chosenFile = false;
  #chain = h("nav", { class: "kd-chain", "aria-label": "Inlined calls" });
  #files = h("select", { class: "sg-select", "aria-label": "Source file" });

  constructor(
    source: Source,
    private code: CodeModel,
    private events: CodeEvents,
    disposer: Disposer,
  ) {
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
        h("option", { value: i }, `${name} · ${count} instructions${available ? "" : " · not found"}`),
      ),
    );
    this.#files.hidden = files.length < 2;
    disposer.listen(this.#files, "change", () => {
      this.#chosenFile = true;
      void this.showFile(Number(this.#files.value));
    });
    const only = files.length === 1 ? h("strong", {}, files[0]?.name ?? "") : undefined;
    this.source.head.append(h("span", { class: "kd-side-name" }, "Source"), only ?? this.#files, this.#chain);
    this.ptx.head.append(
      h("span", { class: "kd-side-name" }, "PTX"),
      h("span", { class: "kd-hint" }, `${module} · ${target} · ${instructions} instructions`),
    );
    this.source.finishHead();
    this.ptx.finishHead();
    disposer.listen(this.source.element, "focusin", () => this.#activate("source"));
    disposer.listen(this.ptx.element, "focusin", () => this.#activate("ptx"));
    this.#active = files.some(({ available }) => available) ? "source" : "ptx";
    this.element = h("div", { class: "kd-codes" }, this.source.element, this.ptx.element);
  }

  async open(): Promise<void> {
    await this.ptx.show("ptx", "ptx", "");
    if (this.code.info.files.length) await this.showFile(0);
    else
      await this.source.show(
        undefined,
        "cuda",
        "This PTX has no line information, so it leads to no source. Compile it with -lineinfo.",
      );
  }

  get active(): Listing {
    return this.#active === "source" ? this.source : this.ptx;
  }

  /** What run-to-cursor is told. */
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

  async showFile(file: number): Promise<void> {
    const info = this.code.info.files[file];
    if (!info) return;
    this.#file = file;
    this.#files.value = String(file);
    const name = info.available ? `file${file}` : undefined;
    this.#stand();
    this.#link();
    await this.source.show(name, info.language, info.note && `${info.path}: ${info.note}`);
    this.redraw();
  }

  /** Shows a moment; `follow` scrolls to where the focused warp stands. */
  show(state: State, follow: boolean): void {
    this.#state = state;
    this.#stand();
    const pc = this.#focusedPc;
    this.#showChain(pc);
    if (follow && pc !== undefined) void this.reveal(pc, false);
    this.redraw();
  }

  /** Where the focused group of lanes stands; at the end, what ran last. */
  get #focusedPc(): number | undefined {
    const state = this.#state;
    if (!state?.focus) return state?.last?.[2];
    const [cta, warp, group] = state.focus;
    return state.warps.find((each) => each.cta === cta && each.warp === warp)?.groups[group]?.[0];
  }

  /** Scrolls both listings to an instruction. */
  async reveal(pc: number, moveCursor = true): Promise<void> {
    const line = this.code.ptxLine(pc);
    const chain = this.code.chain(pc);
    // a file that the reader chose stays while the warp is inside a call made there
    const inChosen = this.#chosenFile ? chain.find(({ file }) => file === this.#file) : undefined;
    const available = chain.filter(({ file }) => this.code.info.files[file]?.available);
    // the reader's code rather than the library that it calls
    const own = available.find(({ file }) => !this.code.info.files[file]?.library);
    const place = inChosen ?? own ?? available[0] ?? chain[0];
    if (moveCursor) this.ptx.pane.cursor = line;
    this.ptx.reveal(line);
    if (!place) return;
    if (place.file !== this.#file) {
      this.#chosenFile = false;
      await this.showFile(place.file);
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
    this.#onPtx.clear();
    this.#onSource.clear();
    const state = this.#state;
    for (const warp of state?.warps ?? []) {
      warp.groups.forEach(([pc], group) => {
        const focused =
          state?.focus?.[0] === warp.cta && state.focus[1] === warp.warp && state.focus[2] === group;
        add(this.#onPtx, this.code.ptxLine(pc), { warp, inner: true, focused });
        const chain = this.code.chain(pc);
        const level = chain.findIndex(({ file }) => file === this.#file);
        const place = chain[level];
        if (place) add(this.#onSource, place.line, { warp, inner: level === 0, focused });
      });
    }
  }

  #showChain(pc: number | undefined): void {
    const chain = pc === undefined ? [] : this.code.chain(pc);
    this.#chain.hidden = chain.length < 2;
    this.#chain.replaceChildren(
      ...chain.flatMap((place, i) => {
        const name = `${i && place.file === chain[i - 1]?.file ? "" : this.code.fileName(place.file)}:${place.line}`;
        const title = i
          ? `inlined at ${this.code.fileName(place.file)}:${place.line}`
          : "the instruction's own line";
        const button = h("button", { type: "button", class: "kd-link", title }, name);
        button.addEventListener("click", () => void this.revealPlace(place));
        return i ? [h("span", { "aria-hidden": "true" }, " ‹ "), button] : [button];
      }),
    );
  }

  #hover(side: Side, line: number | undefined): void {
    this.#hovered = line === undefined ? undefined : { side, line };
    this.#link();
    this.redraw();
  }

  /** A line was chosen: the other listing scrolls to what belongs to it. */
  #chose(side: Side, line: number): void {
    this.#active = side;
    this.#link({ side, line });
    if (side === "source") {
      const [first] = this.code.ptxOf({ file: this.#file, line });
      if (first !== undefined) this.ptx.reveal(first);
    } else {
      const pc = this.code.pcAt(line);
      const place = pc === undefined ? undefined : this.#placeInSight(pc);
      if (place) this.source.reveal(place.line);
      if (pc !== undefined) this.#showChain(pc);
    }
    this.redraw();
  }

  #placeInSight(pc: number): SourcePlace | undefined {
    return this.code.chain(pc).find(({ file }) => file === this.#file);
  }

  #link(place = this.#hovered): void {
    this.#linkedSource.clear();
    this.#linkedPtx.clear();
    if (!place) return;
    if (place.side === "source") {
      for (const line of this.code.ptxOf({ file: this.#file, line: place.line })) this.#linkedPtx.add(line);
      if (this.#linkedPtx.size) this.#linkedSource.add(place.line);
      return;
    }
    const pc = this.code.pcAt(place.line);
    if (pc === undefined) return;
    this.#linkedPtx.add(place.line);
    for (const { file, line } of this.code.chain(pc)) if (file === this.#file) this.#linkedSource.add(line);
  }

  #lookOfPtx(line: number): LineLook {
    const standing = this.#onPtx.get(line) ?? [];
    const stop = this.#state?.stops.find(({ place }) => place.ptx === line);
    const pc = this.code.pcAt(line);
    return {
      ...this.#standing(standing),
      linked: this.#linkedPtx.has(line),
      stop: stop ? (stop.enabled ? "on" : "off") : "",
      hasCode: pc !== undefined,
      failed: Boolean(this.#state?.failed && this.#state.failure?.ptxLine === line),
      marks: [...this.#partyMarks(({ pc }) => this.code.ptxLine(pc) === line), ...this.#marks(standing)],
    };
  }

  #lookOfSource(line: number): LineLook {
    const standing = this.#onSource.get(line) ?? [];
    const stop = this.#state?.stops.find(({ place }) => place.file === this.#file && place.line === line);
    const here = ({ pc }: { pc: number }) => this.#placeInSight(pc)?.line === line;
    const failedPc = this.#state?.failed ? this.code.pcAt(this.#state.failure?.ptxLine ?? 0) : undefined;
    return {
      ...this.#standing(standing),
      linked: this.#linkedSource.has(line),
      stop: stop ? (stop.enabled ? "on" : "off") : "",
      hasCode: this.code.hasCode(this.#file, line),
      failed: failedPc !== undefined && here({ pc: failedPc }),
      marks: [...this.#partyMarks(here), ...this.#marks(standing)],
    };
  }

  #standing(standing: Standing[]): Pick<LineLook, "current" | "spoken"> {
    const focused = standing.find((each) => each.focused);
    return {
      current: focused ? (focused.inner ? "now" : "call") : "",
      spoken: standing.length ? `here: ${standing.map(({ warp }) => warpName(warp)).join(", ")}` : "",
    };
  }

  /** The focused warp first; of many, how many more. */
  #marks(standing: Standing[]): HTMLElement[] {
    const size = this.#clusterSize;
    const sorted = [...standing].sort((a, b) => Number(b.focused) - Number(a.focused));
    const room = size > 1 ? SHOWN_MARKS - 1 : SHOWN_MARKS; // their labels are longer
    const shown = sorted.length > room ? sorted.slice(0, room - 1) : sorted;
    const marks = shown.map(({ warp, inner, focused }) => {
      const mark = warpMark(warp, size);
      mark.dataset.inner = String(inner);
      mark.dataset.focused = String(focused);
      mark.title = `${warpName(warp)}${inner ? "" : ", in a call made here"}`;
      return mark;
    });
    if (shown.length < sorted.length) {
      const rest = sorted.slice(shown.length).map(({ warp }) => warpLabel(warp, size));
      const more = h("span", { class: "kd-more", title: `also here: ${rest.join(", ")}` }, `+${rest.length}`);
      marks.push(more);
    }
    return marks;
  }

  #partyMarks(here: (party: { pc: number }) => boolean): HTMLElement[] {
    return this.#parties
      .filter(here)
      .map(({ label }) =>
        h("span", { class: "kd-party-mark", title: `party ${label} of the finding` }, label),
      );
  }

  get #clusterSize(): number {
    return new Set(this.#state?.warps.map(({ cta }) => cta)).size;
  }
}

function add(map: Map<number, Standing[]>, line: number, standing: Standing): void {
  const list = map.get(line);
  if (list) list.push(standing);
  else map.set(line, [standing]);
}
