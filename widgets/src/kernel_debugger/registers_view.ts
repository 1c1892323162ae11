// The live registers of the focused warp: a row per register, a column per lane, colour or numbers in the cells.

import { CanvasPaint, CellGrid, type Disposer, h, type Rect, type Theme, type Tooltip } from "../core";
import { colorOf, inkFor, NAN_COLOR, type Range } from "../memory/cividis";
import type { State } from "./protocol";
import {
  LANES,
  type NumberFormat,
  numberOf,
  type Register,
  readRegisters,
  summary,
  textOf,
} from "./registers";

const FORMATS: [NumberFormat, string][] = [
  ["auto", "by type"],
  ["hex", "hex"],
  ["signed", "signed"],
  ["unsigned", "unsigned"],
  ["float", "float"],
];
const ROW = 20;
const HEAT_CELL = 15;
const CHARACTER = 7.3;
const HEADER_HEIGHT = 18;

interface Row {
  register: Register;
  operand: boolean;
  range: Range;
  summary: string;
}

export class RegistersView {
  readonly element: HTMLElement;
  #grid: CellGrid;
  #title = h("span", { class: "sg-heading" });
  #format = h("select", { class: "sg-select", "aria-label": "Number format of registers" });
  #cells = h("select", { class: "sg-select", "aria-label": "What the lanes show" });
  #filter = h("input", { class: "sg-field kd-filter", type: "search", placeholder: "filter: %r, f32, …" });
  #changedOnly = h("input", { type: "checkbox" });
  #lanes = h("div", { class: "kd-lanes" });
  #empty = h("p", { class: "kd-note", hidden: true });
  #all: Register[] = [];
  #rows: Row[] = [];
  #operands = new Set<string>();
  #mask = 0;
  #picked: string | undefined;
  #owner = "";
  #before = new Map<string, DataView>();
  #shownMoved = -1;

  constructor(
    disposer: Disposer,
    private theme: () => Theme,
    tooltip: Tooltip,
  ) {
    this.#format.append(...FORMATS.map(([value, label]) => h("option", { value }, label)));
    this.#cells.append(h("option", { value: "heat" }, "colours"), h("option", { value: "values" }, "values"));
    this.#filter.setAttribute("aria-label", "Filter registers by name or type");
    this.#grid = new CellGrid(
      {
        label: "Registers by lane",
        theme,
        tooltip,
        paint: (context, { row, column }, rect) => this.#paint(context, row, column, rect),
        paintRowHeader: (context, row, rect) => this.#paintName(context, row, rect),
        paintColumnHeader: (context, column, rect) => this.#paintLane(context, column, rect),
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
      this.#format,
      this.#cells,
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

  /** @param instruction the text of the instruction at which the warp stands: its operands come first */
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
    this.#mask = warp?.groups[state.focus?.[2] ?? 0]?.[1] ?? 0;
    this.#title.textContent = title;
    this.#operands = new Set(instruction.match(/%[\w.$]+/g) ?? []);
    this.#layout();
  }

  redraw(): void {
    this.#grid.redraw();
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
      .map((register) => ({
        register,
        operand: this.#operands.has(register.name),
        range: this.#range(register, format),
        summary: summary(register, this.#mask, format),
      }))
      .sort((a, b) => Number(b.operand) - Number(a.operand) || byName(a.register.name, b.register.name));
    const none = this.#all.length
      ? "No register matches."
      : "No register of this warp holds a value that is still read.";
    this.#empty.textContent = none;
    this.#empty.hidden = this.#rows.length > 0;
    this.#grid.element.hidden = this.#rows.length === 0;
    this.#grid.setLabel(`Registers by lane, ${this.#rows.length} of ${this.#all.length}`);
    this.#measure();
    this.#showLanes();
  }

  #measure(): void {
    const values = this.#cells.value === "values";
    let cellWidth = HEAT_CELL;
    if (values) {
      let longest = 2;
      for (const { register } of this.#rows.slice(0, 300))
        for (let lane = 0; lane < LANES; lane += 3)
          longest = Math.max(longest, textOf(register, lane, this.#numbers).length);
      cellWidth = Math.ceil(longest * CHARACTER) + 8;
    }
    const widest = this.#rows.reduce((most, { register }) => Math.max(most, register.name.length), 8);
    this.#grid.setGeometry({
      rows: this.#rows.length,
      columns: LANES,
      cellWidth,
      cellHeight: ROW,
      headerWidth: Math.ceil(widest * CHARACTER) + (values ? 62 : 232),
      headerHeight: HEADER_HEIGHT,
      maxHeight: 330,
    });
  }

  #range(register: Register, format: NumberFormat): Range {
    let low = Number.POSITIVE_INFINITY;
    let high = Number.NEGATIVE_INFINITY;
    for (let lane = 0; lane < LANES; lane++) {
      const value = numberOf(register, lane, format);
      if (!((this.#mask >>> lane) & 1) || !Number.isFinite(value)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    return { low, high };
  }

  #paint(context: CanvasRenderingContext2D, row: number, lane: number, rect: Rect): void {
    const shown = this.#rows[row];
    if (!shown) return;
    const { register, range } = shown;
    const theme = this.theme();
    const { x, y, width, height } = rect;
    const active = (this.#mask >>> lane) & 1;
    const value = numberOf(register, lane, this.#numbers);
    const values = this.#cells.value === "values";
    const inner = [x + 0.5, y + 1, width - 1, height - 2] as const;
    if (!active) {
      context.fillStyle = new CanvasPaint(context, devicePixelRatio).empty(theme.border);
      context.fillRect(...inner);
      if (!values) return;
    } else if (register.size === 0) {
      context.strokeStyle = theme.muted;
      context.strokeRect(x + 2.5, y + 4.5, width - 5, height - 9);
      context.fillStyle = theme.text;
      if (value) context.fillRect(x + 3, y + 5, width - 6, height - 10);
      return;
    } else if (!values || register.changed) {
      const plain = values || range.low === range.high; // one value everywhere needs no colour
      context.fillStyle = plain && !Number.isNaN(value) ? theme.surface : colorOf(value, range);
      context.fillRect(...inner);
      if (Number.isNaN(value) && !values) cross(context, rect);
    }
    if (!values) return;
    context.font = `12px ${theme.codeFont}`;
    context.textAlign = "right";
    context.fillStyle = active ? (Number.isNaN(value) ? NAN_COLOR : theme.text) : theme.muted;
    context.fillText(textOf(register, lane, this.#numbers), x + width - 4, y + height / 2);
  }

  #paintName(context: CanvasRenderingContext2D, row: number, { x, y, width, height }: Rect): void {
    const shown = this.#rows[row];
    if (!shown) return;
    const theme = this.theme();
    const middle = y + height / 2;
    context.textAlign = "left";
    context.fillStyle = theme.text;
    if (shown.register.name === this.#picked) {
      context.fillStyle = theme.surface;
      context.fillRect(x, y, width, height);
      context.fillStyle = theme.text;
    }
    if (shown.register.changed) {
      context.beginPath();
      context.moveTo(x + 2, middle - 4);
      context.lineTo(x + 8, middle);
      context.lineTo(x + 2, middle + 4);
      context.fill();
    }
    context.font = `${shown.operand || shown.register.changed ? "bold " : ""}12px ${theme.codeFont}`;
    context.fillText(shown.register.name, x + 12, middle);
    const widest = this.#grid.geometry.headerWidth - (this.#cells.value === "values" ? 62 : 232) + 12;
    context.fillStyle = theme.muted;
    context.font = `11px ${theme.codeFont}`;
    context.fillText(shown.register.type, x + widest, middle);
    if (this.#cells.value === "values") return;
    context.fillStyle = theme.text;
    context.fillText(shown.summary, x + widest + 34, middle, width - widest - 40);
  }

  #paintLane(context: CanvasRenderingContext2D, lane: number, { x, y, width, height }: Rect): void {
    const theme = this.theme();
    if (this.#cells.value === "heat" && lane % 4 !== 0) return;
    context.font = `11px ${theme.uiFont}`;
    context.textAlign = this.#cells.value === "heat" ? "left" : "right";
    context.fillStyle = theme.muted;
    const at = this.#cells.value === "heat" ? x + 2 : x + width - 4;
    context.fillText(String(lane), at, y + height / 2);
  }

  #describe(row: number, lane: number): string | undefined {
    const shown = this.#rows[row];
    if (!shown) return undefined;
    const { register } = shown;
    const asHex = register.size > 0 ? ` (${textOf(register, lane, "hex")})` : "";
    const away = (this.#mask >>> lane) & 1 ? "" : "\nthis lane is not in the group";
    const changed = register.changed ? "\nchanged since the last stop" : "";
    return `${register.name} ${register.type}, lane ${lane}: ${textOf(register, lane, this.#numbers)}${asHex}${away}${changed}`;
  }

  #pick(name: string | undefined): void {
    this.#picked = this.#picked === name ? undefined : name;
    this.#showLanes();
    this.#grid.redraw();
  }

  /** The picked register's 32 values as text. */
  #showLanes(): void {
    const register = this.#all.find(({ name }) => name === this.#picked);
    this.#lanes.hidden = !register;
    if (!register) return;
    const cells = Array.from({ length: LANES }, (_, lane) =>
      h(
        "span",
        { class: "kd-lane", "data-active": String(Boolean((this.#mask >>> lane) & 1)) },
        h("small", {}, String(lane)),
        textOf(register, lane, this.#numbers),
      ),
    );
    const close = h("button", { type: "button", class: "sg-button", "aria-label": "Close the lanes" }, "✕");
    close.addEventListener("click", () => this.#pick(undefined));
    this.#lanes.replaceChildren(
      h("strong", {}, `${register.name} ${register.type}`),
      h("div", { class: "kd-lane-grid" }, ...cells),
      close,
    );
  }
}

function cross(context: CanvasRenderingContext2D, { x, y, width, height }: Rect): void {
  context.strokeStyle = inkFor(Number.NaN, { low: 0, high: 1 });
  context.beginPath();
  context.moveTo(x + 4, y + 5);
  context.lineTo(x + width - 4, y + height - 5);
  context.moveTo(x + width - 4, y + 5);
  context.lineTo(x + 4, y + height - 5);
  context.stroke();
}

function byName(a: string, b: string): number {
  const [prefixA, numberA] = split(a);
  const [prefixB, numberB] = split(b);
  return prefixA === prefixB ? numberA - numberB : prefixA < prefixB ? -1 : 1;
}

function split(name: string): [string, number] {
  const digits = /\d+$/.exec(name)?.[0] ?? "";
  return [name.slice(0, name.length - digits.length), Number(digits || 0)];
}
