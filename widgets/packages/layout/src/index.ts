// Layout: a tile by coordinates and by places. Python computes where elements lie; this page draws, picks and steps.

import {
  type Context,
  defineWidget,
  failure,
  format,
  framed,
  h,
  type LegendItem,
  legendMark,
  lookOf,
  makeFrame,
  type TourStep,
  type Track,
  Transport,
  watchTheme,
} from "@sglab/core";
import { definitions } from "@sglab/memory/parts";
import "@sglab/memory/memory.css";
import { makeControls } from "./controls";
import { makeGrids, type Scene } from "./grids";
import "./layout.css";
import { Tile } from "./model";
import type { LAYOUT, Shown } from "./protocol";
import { elementRows, type Label, placeTitle } from "./words";

const HINT =
  "Press an element, or the ↓ key, to see its address, its bank or register, and who is in its way.";
const BESIDE = 64; // px of headings
const LEAST = 150;

function render({ el, source, disposer }: Context<typeof LAYOUT>): void {
  let tile: Tile | undefined;
  let selected: number | undefined;
  let against: ReadonlySet<number> = new Set();
  let label: Label = "place";
  let legendOfNow = "";

  const transport = new Transport();
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    tour: { name: "layout", steps: STEPS },
    onEscape: () => select(undefined),
    keys: () => [
      { keys: ["ArrowDown"], label: "select the element below", run: () => move(1, 0) },
      { keys: ["ArrowUp"], label: "select the element above", run: () => move(-1, 0) },
      { keys: ["."], label: "select the element to the right", run: () => move(0, 1) },
      { keys: [","], label: "select the element to the left", run: () => move(0, -1) },
      ...(source.live ? [{ keys: ["/"], label: "type a layout", run: () => controls.focusText() }] : []),
    ],
  });
  const theme = watchTheme(frame.root, disposer, () => draw.schedule());
  const scene = (): Scene | undefined => tile && { tile, lit: transport.position, selected, label, against };
  const tileTitle = h("div", { class: "sg-heading" });
  const placesTitle = h("div", { class: "sg-heading" });
  const banksTitle = h("div", { class: "sg-heading" });
  const grids = makeGrids(
    { room: () => gridRoom(), theme, tooltip: frame.tooltip, scene, select: (i) => select(i) },
    disposer,
  );
  const bankBox = h("div", { class: "sly-banks" }, banksTitle, grids.banks.element);
  const sides = h(
    "div",
    { class: "sly-sides" },
    h("div", { class: "sly-side" }, tileTitle, grids.tile.element),
    h("div", { class: "sly-side" }, placesTitle, grids.places.element),
  );
  frame.view.append(sides, bankBox);
  const controls = makeControls(
    source,
    disposer,
    (change) => {
      frame.clearNotice();
      source.call("show", change).catch((error: Error) => {
        frame.notify("error", error.message);
        if (tile) controls.show(tile.shown, label);
      });
    },
    (next) => {
      label = next;
      draw.schedule();
    },
  );
  frame.toolbar.append(...controls.parts);
  frame.more.append(...controls.more);

  function gridRoom(): number {
    const room = frame.room() - BESIDE - (bankBox.hidden ? 0 : bankBox.offsetHeight);
    const [first, second] = [...sides.children] as [HTMLElement, HTMLElement];
    const stacked = second.offsetTop > first.offsetTop; // one side below the other, where the view is narrow
    return Math.max(LEAST, stacked ? (room - BESIDE) / 2 : room);
  }

  function select(element: number | undefined): void {
    selected = element;
    against = new Set(element !== undefined && tile?.shown.space === "smem" ? tile.conflicts(element) : []);
    if (element !== undefined) grids.reveal(element);
    transport.refresh();
  }

  function move(down: number, across: number): void {
    if (!tile) return;
    const { rows, columns } = tile.shown;
    if (selected === undefined) {
      select(0);
      return;
    }
    const row = Math.max(0, Math.min(rows - 1, tile.row(selected) + down));
    const column = Math.max(0, Math.min(columns - 1, tile.column(selected) + across));
    select(row * columns + column);
  }

  function showDetails(): void {
    if (!tile) return;
    const parts: HTMLElement[] = [h("p", { class: "sg-note" }, tile.shown.said)];
    if (selected === undefined) parts.push(h("p", { class: "sg-note" }, HINT));
    else parts.push(definitions("Element", elementRows(tile, selected)));
    frame.details.replaceChildren(...parts);
  }

  const draw = framed(() => {
    if (!tile) return;
    showDetails();
    controls.show(tile.shown, label);
    const legend = `${tile.shown.space} ${theme().dark}`;
    if (legend !== legendOfNow) frame.setLegend(legendOf(tile.shown, theme().dark));
    legendOfNow = legend;
    grids.drawNow();
  });
  disposer.add(() => draw.cancel());
  const resized = new ResizeObserver(() => grids.resize()); // *more* takes room, too
  resized.observe(frame.view);
  disposer.add(() => resized.disconnect());
  disposer.add(transport.changed.on(() => draw.schedule()));

  function show(next: Tile): void {
    const { shown } = next;
    const same = tile?.shown.asked === shown.asked;
    tile = next;
    if (!same) selected = undefined;
    frame.setHeader(source.get("header"));
    frame.setPlaceholder(null);
    tileTitle.textContent = `Coordinates: ${format.plural(shown.rows, "row")}, ${format.plural(shown.columns, "column")}`;
    placesTitle.textContent = placeTitle(next);
    banksTitle.textContent = "Banks 0–31 of this access: different words that each has to deliver";
    bankBox.hidden = shown.space !== "smem";
    transport.load(
      trackOf(next, () => selected),
      shown.steps.length,
    );
    select(selected);
    grids.resize();
    draw.schedule();
  }

  async function read(): Promise<void> {
    try {
      const shown = source.get("shown");
      const cells = await source.slice("cells", 0, 6);
      show(new Tile(shown, cells.data));
    } catch (error) {
      frame.setPlaceholder(failure(source, error));
    }
  }
  source.onChange("revision", () => void read());
  frame.setHeader(source.get("header"));
  frame.setPlaceholder({ kind: "loading", text: "Reading the layout." });
  void read();
}

function trackOf(tile: Tile, selected: () => number | undefined): Track {
  const { steps, space, passes, least } = tile.shown;
  const unit = { smem: "access", registers: "register", tmem: "warp" }[space];
  return {
    length: steps.length,
    granularities: [{ id: unit, label: unit }],
    marks: passes
      .flatMap((many, i) => (many > (least[i] as number) ? [{ at: i + 1, label: "bank conflict" }] : []))
      .slice(0, 100),
    describe: (position) => steps[position - 1] ?? "Nothing has been taken yet.",
    eventsOfSelection: () => {
      const element = selected();
      return element === undefined ? undefined : [(tile.group[element] as number) + 1];
    },
  };
}

const STEPS: TourStep[] = [
  { key: "Home", text: "to go to the beginning: no element has been taken." },
  { key: "ArrowRight", text: "to take the first access of a warp, or the first register." },
  { key: "ArrowDown", text: "to select an element: the other side shows where it lies." },
  { key: ".", text: "to go to its neighbour: see where the layout puts it." },
  { key: "End", text: "to see all of the tile again." },
];

function legendOf({ space }: Shown, dark: boolean): LegendItem[] {
  const colours =
    space === "smem"
      ? [
          { label: "first 16 bytes of a line", look: lookOf(0, dark) },
          { label: "second, … eight colours", look: lookOf(1, dark) },
        ]
      : [
          { label: "lane 0, 8, …", look: lookOf(0, dark) },
          { label: "lane 1, 9, … eight colours", look: lookOf(1, dark) },
        ];
  return [
    ...colours,
    { label: "selected", mark: legendMark("outline") },
    { label: "pale: not taken yet; underlined: taken just now" },
    ...(space === "smem" ? [{ label: "red outline: in the selected element's way" }] : []),
  ];
}

export default defineWidget<typeof LAYOUT>({ name: "layout", version: 1, render });
