// The picture: the window as a strip, the open tile in memory and in the matrix, the decoders below them.

import { type Disposer, type Frame, h, setText, type Theme } from "@sglab/core";
import { button, noteParts, scaleParts, showDetails } from "@sglab/memory/parts";
import { makeBoard } from "./board";
import { chunkText, detailParts } from "./details";
import type { From } from "./editor";
import { type Grids, gridTitle, makeGrids } from "./grids";
import type { Model } from "./model";
import { orderControl } from "./order_control";
import type { Area } from "./protocol";
import { chunkKey, makeStrip, momentKey, type Strip, unwrittenKey } from "./strip";

export interface ViewOptions {
  frame: Frame;
  model: Model;
  theme: () => Theme;
  disposer: Disposer;
  select: (address: number) => void;
  pickArea: (area: Area) => void;
  /** Opens what an address is part of, and selects its chunk. */
  goToAddress: (chunk: number) => void;
  goToEvent: (event: number) => void;
  redraw: () => void;
}

export interface View {
  draw(): void;
  /** The editor shows something else. */
  relayout(): void;
  /** There is other room for the tile. */
  refit(): void;
  /** A tile or an area was opened. */
  opened(): void;
  /** Another launch. */
  reset(): void;
  /** Scrolls to a chunk, on both sides. */
  reveal(address: number): void;
  playOrder(): void;
}

const COLORS = "the first of a chunk, two where there is room; colour: the first, or NaN among them all";
const LEAST_TILE = 120; // px
const SIDE_BY_SIDE = 810; // px of width, as in the style sheet
const BORDER = 4; // px around a tile
const PLACES: Record<From, string> = { raw: "As rows", map: "In the box", descriptor: "In the matrix" };

export function makeView(options: ViewOptions): View {
  const { frame, model, theme, disposer, select, pickArea, goToAddress, goToEvent, redraw } = options;
  const { editor } = model;
  const order = orderControl(disposer, redraw);
  const grids: Grids = makeGrids(
    {
      theme,
      tooltip: frame.tooltip,
      scene: () => ({
        layout: editor.layout,
        lit: order.lit,
        selected: model.selected,
        touched: model.isTouched,
        content: model.content,
        range: model.rangeOf,
        bytes: model.bytesAt,
        values: model.valuesAt,
        written: model.writtenAt,
      }),
      room() {
        const stacked = stripBox.clientWidth < SIDE_BY_SIDE;
        const [one, other] = [grids.bytes.element.offsetHeight, grids.logical.element.offsetHeight];
        const all = order.root.getBoundingClientRect().bottom - stripBox.getBoundingClientRect().top;
        const room = frame.room() - (all - (stacked ? one + other : Math.max(one, other)));
        return Math.max(LEAST_TILE, Math.floor(stacked ? room / 2 : room) - BORDER);
      },
      describe: (address) => chunkText(model.looked, address),
      select,
    },
    disposer,
  );
  const stripBox = h("div");
  const key = h("div", { class: "ssm-row" });
  const problem = h("p", { class: "ssm-error", role: "alert" });
  const bytesTitle = h("div", { class: "sg-heading" });
  const logicalTitle = h("div", { class: "sg-heading" });
  const undo = button("edited: undo", "Show it as the launch has it", model.undoEdits);
  const board = makeBoard({
    edited: model.edit,
    maps: () => model.maps,
    editor,
    base: () => model.launch?.dynamic ?? 1024,
    picked() {
      relayout();
      fit(); // a panel is not in front before it says something
    },
    goToEvent,
  });
  const panel = h("div", { class: "ssm-panel" }, board.root);
  frame.view.append(
    stripBox,
    panel,
    key,
    problem,
    h(
      "div",
      { class: "ssm-sides" },
      h("div", {}, bytesTitle, grids.bytes.element),
      h("div", {}, h("div", { class: "ssm-title" }, logicalTitle, undo), grids.logical.element),
    ),
    order.root,
  );

  let resizing = false;
  function relayout(): void {
    order.reset(editor.layout.pieces.length);
    refit();
  }

  function refit(): void {
    resizing = true;
    redraw();
  }

  // What the panel shows decides the tile's room.
  function fit(): void {
    const { launch, facts } = model;
    if (!resizing || !launch || !facts) return;
    resizing = false;
    board.draw(model, theme());
    grids.resize();
  }

  // What has not changed is left alone: a menu that is open stays open.
  let drawn: { key: string; strip: Strip } | undefined;
  function drawStrip(bytes: number, width: number): void {
    if (!width) return;
    const key = `${model.launchKey} ${width}`;
    if (drawn?.key !== key) {
      drawn = { key, strip: makeStrip({ areas: model.areas, bytes, width, pick: pickArea }) };
      stripBox.replaceChildren(drawn.strip.svg);
    }
    const { start, end } = editor.layout;
    drawn.strip.show({ frame: model.info, shown: [start, end], touched: model.touched });
  }

  function drawKey(): void {
    const { content, ranges } = model;
    const { dark } = theme();
    const stamp = `${content} ${content === "values" ? JSON.stringify([...ranges]) : dark}`;
    if (key.dataset.stamp === stamp) return;
    key.dataset.stamp = stamp;
    const shown = [content, ...ranges.keys()].join();
    resizing ||= shown !== key.dataset.shown; // other lines take other room
    key.dataset.shown = shown;
    const what = ranges.size ? COLORS : "nothing that is read as numbers has been written";
    const cells = content === "values" ? [...scaleParts(ranges, what), unwrittenKey()] : [chunkKey(dark)];
    key.replaceChildren(momentKey(), ...cells);
  }

  return {
    relayout,
    refit,
    opened() {
      board.showOpened();
      relayout();
    },
    reset() {
      board.reset(model.launch?.tab ?? "");
      relayout();
    },
    reveal(address) {
      fit();
      grids.revealPiece(editor.layout.byAddress.get(address), address);
    },
    playOrder: () => order.play(),
    draw() {
      const { launch, facts, info } = model;
      if (!launch || !facts) return;
      model.measureRange();
      const { layout, tile, from } = editor;
      // First what the page has to be measured for, then what changes it: once a drawing is laid out, not between.
      drawKey();
      fit();
      board.draw(model, theme());
      const width = stripBox.clientWidth;
      grids.drawNow();
      drawStrip(launch.bytes, width);
      setText(problem, layout.problems.map((text) => `▲ ${text}`).join(" "));
      setText(bytesTitle, `In memory ${gridTitle(layout)}`);
      setText(logicalTitle, `${PLACES[from]}: ${editor.title(facts.tiles)}`);
      undo.hidden = !editor.edited || tile < 0;
      showDetails(frame, [
        ...detailParts(model.looked, model.selected, goToAddress),
        ...noteParts(info?.note ?? ""),
      ]);
    },
  };
}
