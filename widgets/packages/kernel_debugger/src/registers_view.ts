// The live registers of the focused warp: a row per register, a column per lane, colour or numbers in the cells.

import {
  CellGrid,
  type Disposer,
  h,
  setAttributes,
  setText,
  sharedPaint,
  type Theme,
  type Tooltip,
} from "@sglab/core";
import type { Range } from "@sglab/memory/cividis";
import { replaceKeepingFocus } from "./kept_children";
import type { State } from "./protocol";
import { paintCell, paintLane, paintName, type RegisterLine, type RegistersLook } from "./register_paint";
import {
  byName,
  LANES,
  type NumberFormat,
  type Register,
  rangeOf,
  readRegisters,
  summary,
  textOf,
} from "./registers";
import { withoutRegisters } from "./words";

const FORMATS: [NumberFormat, string][] = [
  ["auto", "by type"],
  ["hex", "hex"],
  ["signed", "signed"],
  ["unsigned", "unsigned"],
  ["float", "float"],
];
const ROW = 20;
const HEAT_CELL = 15;
const LEAST_HEAT_CELL = 8;
const SCROLLBAR = 16;
const CHARACTER = 7.3;
const HEADER_HEIGHT = 18;

export class RegistersView {
  readonly element: HTMLElement;
  #grid: CellGrid;
  #title = h("span", { class: "sg-heading" });
  #format = h("select", { class: "sg-select", "aria-label": "Number format of registers" });
  #cells = h("select", { class: "sg-select", "aria-label": "What the lanes show" });
  #filter = h("input", { class: "sg-field kd-filter", type: "search", placeholder: "filter" });
  #changedOnly = h("input", { type: "checkbox" });
  #lanes = h("div", { class: "kd-lanes" });
  #empty = h("p", { class: "kd-note", hidden: true });
  #all: Register[] = [];
  #rows: RegisterLine[] = [];
  #operands = new Set<string>();
  #mask = 0;
  #nameWidth = 0;
  #shownGeometry = "";
  #picked: string | undefined;
  #owner = "";
  /** What is said where there is no register. */
  #without = "";
  #before = new Map<string, DataView>();
  #shownMoved = -1;

  constructor(
    disposer: Disposer,
    private theme: () => Theme,
    tooltip: Tooltip,
    private toWriter?: (register: string) => void,
  ) {
    this.#format.append(...FORMATS.map(([value, label]) => h("option", { value }, label)));
    this.#cells.append(h("option", { value: "heat" }, "colours"), h("option", { value: "values" }, "values"));
    this.#filter.setAttribute("aria-label", "Filter registers by name or type: %r, f32 …");
    this.#grid = new CellGrid(
      {
        label: "Registers by lane",
        theme,
        tooltip,
        paint: (context, { row, column }, rect) => {
          const shown = this.#rows[row];
          if (shown) paintCell(context, shown, column, rect, this.#look());
        },
        paintRowHeader: (context, row, rect) => {
          const shown = this.#rows[row];
          if (shown) paintName(context, shown, rect, this.#look());
        },
        paintColumnHeader: (context, column, rect) => paintLane(context, column, rect, this.#look()),
        describe: ({ row, column }) => this.#describe(row, column),
        select: ({ row }) => this.#pick(this.#rows[row]?.register.name),
        resized: () => this.#measure(),
      },
      disposer,
    );
    disposer.listen(this.#format, "change", () => this.#layout());
    disposer.listen(this.#cells, "change", () => this.#layout());
    disposer.listen(this.#filter, "input", () => this.#layout());
    disposer.listen(this.#changedOnly, "change", () => this.#layout());
    const controls = h(
      "div",
      { class: "kd-bar" },
      this.#title,
      this.#filter,
      h("label", { class: "kd-check" }, this.#changedOnly, "changed"),
      h("span", { class: "kd-menus" }, this.#format, this.#cells),
    );
    this.element = h(
      "section",
      { class: "kd-registers", "aria-label": "Registers" },
      controls,
      this.#empty,
      this.#grid.element,
      this.#lanes,
    );
  }

  /** @param instruction the text of the instruction at which the warp is: its operands come first */
  show(state: State, title: string, instruction: string): void {
    const owner = String(state.focus);
    const moved = state.moved !== this.#shownMoved || owner !== this.#owner;
    if (moved) {
      const before = owner === this.#owner ? this.#before : new Map<string, DataView>();
      this.#all = readRegisters(state.registers, before);
      this.#before = new Map(this.#all.map(({ name, view }) => [name, view]));
    }
    this.#owner = owner;
    this.#shownMoved = state.moved;
    const warp = state.warps.find(({ cta, warp }) => cta === state.focus?.[0] && warp === state.focus[1]);
    this.#without = withoutRegisters(state.focus !== null, warp?.groups.length === 0);
    this.#mask = warp?.groups[state.focus?.[2] ?? 0]?.[1] ?? 0;
    setText(this.#title, title);
    setAttributes(this.#title, { title });
    this.#operands = new Set(instruction.match(/%[\w.$]+/g) ?? []);
    this.#layout();
  }

  redraw(): void {
    this.#grid.redraw();
  }

  #look(): RegistersLook {
    const values = this.#cells.value === "values";
    return {
      theme: this.theme(),
      paint: sharedPaint(),
      mask: this.#mask,
      format: this.#numbers,
      values,
      picked: this.#picked,
      nameWidth: this.#nameWidth,
    };
  }

  get #numbers(): NumberFormat {
    return this.#format.value as NumberFormat;
  }

  #layout(): void {
    const format = this.#numbers;
    const query = this.#filter.value.trim().toLowerCase();
    const wanted = this.#all.filter(
      ({ name, type, changed }) =>
        (!this.#changedOnly.checked || changed) &&
        (!query || name.toLowerCase().includes(query) || type.includes(query)),
    );
    this.#rows = wanted
      .map((register) => this.#line(register, format))
      .sort((a, b) => Number(b.operand) - Number(a.operand) || byName(a.register.name, b.register.name));
    const none = this.#all.length ? "No register matches." : this.#without;
    setText(this.#empty, none);
    this.#empty.hidden = this.#rows.length > 0;
    this.#grid.element.hidden = this.#rows.length === 0;
    this.#grid.setLabel(`Registers by lane, ${this.#rows.length} of ${this.#all.length}`);
    this.#measure();
    this.#showLanes();
  }

  /** What is painted is worked out for rows in sight only. */
  #line(register: Register, format: NumberFormat): RegisterLine {
    const mask = this.#mask;
    let range: Range | undefined;
    let text: string | undefined;
    return {
      register,
      operand: this.#operands.has(register.name),
      get range() {
        range ??= rangeOf(register, mask, format);
        return range;
      },
      get summary() {
        text ??= summary(register, mask, format);
        return text;
      },
    };
  }

  #measure(): void {
    const values = this.#cells.value === "values";
    const longestName = this.#rows.reduce((most, { register }) => Math.max(most, register.name.length), 8);
    this.#nameWidth = Math.ceil(longestName * CHARACTER);
    const headerWidth = this.#nameWidth + (values ? 62 : 232);
    const room = Math.floor((this.#grid.width - headerWidth - SCROLLBAR) / LANES);
    let cellWidth = Math.max(LEAST_HEAT_CELL, Math.min(HEAT_CELL, room)); // all lanes together, where they fit
    if (values) {
      let longest = 2;
      for (const { register } of this.#rows.slice(0, 300))
        longest = Math.max(longest, this.#longestOf(register));
      cellWidth = Math.ceil(longest * CHARACTER) + 8;
    }
    const geometry = {
      rows: this.#rows.length,
      columns: LANES,
      cellWidth,
      cellHeight: ROW,
      headerWidth,
      headerHeight: HEADER_HEIGHT,
      maxHeight: this.#picked ? 190 : 330, // so that the lanes below are in sight
    };
    const shown = Object.values(geometry).join();
    if (shown !== this.#shownGeometry) this.#grid.setGeometry(geometry);
    else this.#grid.redraw();
    this.#shownGeometry = shown;
  }

  #longestOf(register: Register): number {
    let longest = 0;
    for (let lane = 0; lane < LANES; lane++)
      longest = Math.max(longest, textOf(register, lane, this.#numbers).length);
    return longest;
  }

  #describe(row: number, lane: number): string | undefined {
    const shown = this.#rows[row];
    if (!shown) return undefined;
    const { register } = shown;
    const text = textOf(register, lane, this.#numbers);
    const hex = register.size > 0 ? textOf(register, lane, "hex") : text;
    const also = hex === text ? textOf(register, lane, "signed") : hex;
    const asHex = also === text ? "" : ` (${also})`;
    const away = (this.#mask >>> lane) & 1 ? "" : "\nthis lane is not in the group";
    const changed = register.changed ? "\nchanged since the last stop" : "";
    return `${register.name} ${register.type}, lane ${lane}: ${text}${asHex}${away}${changed}`;
  }

  #pick(name: string | undefined): void {
    this.#picked = this.#picked === name ? undefined : name;
    this.#showLanes();
    this.#measure();
  }

  #writerButton(name: string): HTMLElement | undefined {
    const { toWriter } = this;
    if (!toWriter) return undefined;
    const title = `Go back to where this warp is about to write ${name}`;
    const button = h("button", { type: "button", class: "sg-button kd-small", title }, "◂ who wrote it");
    button.addEventListener("click", () => toWriter(name));
    return button;
  }

  /** The picked register's 32 values as text. It stays picked where it holds none, so that a reader may step there. */
  #showLanes(): void {
    const name = this.#picked;
    this.#lanes.hidden = name === undefined;
    if (name === undefined) return;
    const register = this.#all.find((each) => each.name === name);
    const title = h("strong", {}, register ? `${name} ${register.type}` : name);
    const close = h("button", { type: "button", class: "sg-button", "aria-label": "Close the lanes" }, "✕");
    close.addEventListener("click", () => this.#pick(undefined));
    const bar = h("div", { class: "kd-bar" }, title, this.#writerButton(name), close);
    const values = register
      ? this.#laneGrid(register)
      : h("p", { class: "kd-note" }, "It holds no value here that will still be read.");
    replaceKeepingFocus(this.#lanes, [bar, values]);
  }

  #laneGrid(register: Register): HTMLElement {
    const cells = Array.from({ length: LANES }, (_, lane) =>
      h(
        "span",
        { class: "kd-lane", "data-active": String(Boolean((this.#mask >>> lane) & 1)) },
        h("small", {}, String(lane)),
        textOf(register, lane, this.#numbers),
      ),
    );
    const grid = h("div", { class: "kd-lane-grid" }, ...cells);
    grid.style.setProperty("--kd-characters", String(this.#longestOf(register) + 4));
    return grid;
  }
}
