// SharedMemory: a CTA's window, tiles as bytes and as matrices, descriptors to edit, banks, cp.async groups.

import "../memory/memory.css";
import "./shared_memory.css";
import {
  type Context,
  defineWidget,
  framed,
  type Header,
  h,
  makeFrame,
  TensorWindow,
  Transport,
  watchTheme,
} from "../core";
import type { Range } from "../memory/cividis";
import { followSession } from "../memory/following";
import { noteParts } from "../memory/parts";
import { makeBoard } from "./board";
import {
  type Area,
  type Code,
  type FrameInfo,
  type Launch,
  LINE,
  parseSmem,
  readMoments,
  smem,
  type TensorMap,
  type Tile,
} from "./data";
import { chunkText, detailParts, type Looked } from "./details";
import { Editor, tileAt } from "./editor";
import { gridTitle, makeGrids } from "./grids";
import { questionOfMap } from "./map_panel";
import { orderControl } from "./order_control";
import { chunkKey, strip } from "./strip";
import { type Content, makeToolbar } from "./toolbar";
import { eventsOf, granularitiesOf, touchedBy } from "./track";
import { type Facts, momentSentence, numbersIn } from "./words";

const SAMPLED = 400; // pieces, for the range of colours

function render({ el, source, selection, disposer }: Context): void {
  const transport = new Transport();
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    onEscape: () => selection.set({}),
    keys: () => [
      { keys: ["n"], label: "next tile", run: () => stepTile(1) },
      { keys: ["p"], label: "previous tile", run: () => stepTile(-1) },
      { keys: ["/"], label: "go to an address", run: () => toolbar.focusAddress() },
      {
        keys: ["v"],
        label: "places or values in the cells",
        run: () => setContent(content === "places" ? "values" : "places"),
      },
      { keys: ["o"], label: "light up the chunks in their order", run: () => order.play() },
      { keys: ["Enter"], shown: "arrows, Enter", label: "in a grid: walk to a chunk, select it" },
    ],
  });
  const theme = watchTheme(frame.root, disposer, () => redraw());
  const fail = (error: unknown) => frame.notify("error", (error as Error).message);

  let launch: Launch | undefined;
  let facts: Facts | undefined;
  let areas: Area[] = [];
  let maps: TensorMap[] = [];
  let info: FrameInfo | undefined;
  let selected: number | undefined;
  let content: Content = "places";
  let follows = true;
  let range: Range = { low: 0, high: 0 };
  const editor = new Editor();

  const rows = new TensorWindow(source, "bytes", 64, () => redraw(), fail);
  const bytesAt = (address: number): ArrayLike<number> | undefined => {
    if (!info?.alive || !launch || address + 16 > launch.bytes) return undefined;
    const row = rows.row(info.rows[0] + Math.floor(address / LINE));
    return row && Array.from({ length: 16 }, (_, i) => row[(address % LINE) + i] as number);
  };
  const valuesAt = (address: number) => {
    const bytes = bytesAt(address);
    return bytes && numbersIn(bytes, editor.layout.element);
  };
  const touched = () => (facts && info ? touchedBy(facts, info.moment) : []);

  // The picture
  const order = orderControl(disposer, () => redraw());
  const toolbar = makeToolbar(source, disposer, {
    openTile,
    stepTile,
    setContent,
    setFollow: (next) => {
      follows = next;
      openUsed();
    },
    goTo,
    failed: fail,
  });
  const grids = makeGrids(
    {
      theme,
      tooltip: frame.tooltip,
      scene: () => ({
        layout: editor.layout,
        lit: order.lit,
        selected,
        touched: touched()[0],
        content,
        range,
        values: valuesAt,
      }),
      describe: (address) => chunkText(looked(), address),
      select,
    },
    disposer,
  );
  const stripBox = h("div");
  const key = h("div", { class: "ssm-row" });
  const problem = h("p", { class: "ssm-error", role: "alert" });
  const bytesTitle = h("div", { class: "sg-heading" });
  const logicalTitle = h("div", { class: "sg-heading" });
  const board = makeBoard({
    edited,
    maps: () => maps,
    editor,
    base: () => launch?.dynamic ?? 1024,
    relayout,
  });
  frame.toolbar.append(...toolbar.parts);
  frame.view.append(
    stripBox,
    key,
    problem,
    h(
      "div",
      { class: "ssm-sides" },
      h("div", {}, bytesTitle, grids.bytes.element),
      h("div", {}, logicalTitle, grids.logical.element),
    ),
    order.root,
    h("div", { class: "ssm-panel" }, board.root),
  );

  function looked(): Looked {
    const box = editor.from === "map" && editor.map ? questionOfMap(editor.map) : undefined;
    const globalBase = editor.map?.map.address ?? "0x0";
    return { layout: editor.layout, frame: info, areas, bytes: bytesAt, box, globalBase };
  }

  function setContent(next: Content): void {
    content = next;
    redraw();
  }

  function relayout(): void {
    order.reset(editor.layout.pieces.length);
    grids.resize();
    redraw();
  }

  function edited(change: Parameters<Editor["edit"]>[0]): void {
    editor.edit(change);
    relayout();
  }

  function opened(): void {
    board.showOpened();
    relayout();
  }

  function openTile(id: number): void {
    if (!facts) return;
    editor.openTile(id, facts, maps, info);
    opened();
  }

  function stepTile(by: number): void {
    const count = facts?.tiles.length ?? 0;
    if (count) openTile((editor.tile + by + count) % count);
  }

  function goTo(text: string): void {
    const address = parseSmem(text);
    if (address === undefined || !launch || address >= launch.bytes) {
      const most = `0x${(launch?.bytes ?? 0).toString(16)}`;
      frame.notify("error", `“${text}” is no address here: write smem+0x… below ${most}.`);
      return;
    }
    frame.clearNotice();
    const chunk = address - (address % 16);
    openAt(chunk);
    select(chunk);
  }

  function openAt(address: number): void {
    if (editor.layout.byAddress.has(address)) return;
    const found = tileAt(facts?.tiles ?? [], address);
    if (found) openTile(found.id);
    else
      openArea(
        areas.find((area) => address >= area.start && address < area.start + area.bytes),
        address,
      );
  }

  function openArea(area: Area | undefined, address: number): void {
    const begin = address - (address % 1024);
    const whole = area && area.kind !== "dynamic" && area.bytes >= 16;
    editor.openArea(whole ? area : { name: area?.name ?? "", start: begin, bytes: 4096 });
    opened();
  }

  function select(address: number): void {
    selection.set({ ...selection.value, address: smem(address), cta: launch?.cta }, frame);
    grids.revealPiece(editor.layout.byAddress.get(address), address);
  }

  function pickArea(area: Area): void {
    if (area.tile >= 0) openTile(area.tile);
    else {
      openArea(area, area.start);
      select(area.start - (area.start % 16));
    }
  }

  function measureRange(): void {
    if (content !== "values") return;
    const { pieces } = editor.layout;
    const every = Math.max(1, Math.ceil(pieces.length / SAMPLED));
    const values = pieces
      .filter((_, i) => i % every === 0)
      .flatMap((piece) => valuesAt(piece.address) ?? [])
      .filter(Number.isFinite)
      .sort((a, b) => a - b);
    const at = (share: number) => values[Math.round(share * (values.length - 1))] ?? 0;
    range = { low: at(0.02), high: at(0.98) };
  }

  // What has not changed is left alone: a menu that is open stays open.
  let stripKey = "";
  function drawStrip(bytes: number): void {
    const width = stripBox.clientWidth;
    const { start, end } = editor.layout;
    const key = [factsKey, source.get("revision"), info?.moment, start, end, width].join(" ");
    if (!width || key === stripKey) return;
    stripKey = key;
    const shown: [number, number] = [start, end];
    const drawn = strip({ areas, bytes, width, frame: info, shown, touched: touched(), pick: pickArea });
    stripBox.replaceChildren(drawn);
  }

  const redrawFrame = framed(() => {
    if (!launch || !facts) return;
    measureRange();
    const { layout, tile, from } = editor;
    toolbar.show(tile, content);
    drawStrip(launch.bytes);
    key.replaceChildren(chunkKey(theme().dark));
    problem.textContent = layout.problems.map((text) => `▲ ${text}`).join(" ");
    const name = from === "raw" ? editor.raw.name || "plain rows" : (facts.tiles[tile]?.name ?? "descriptor");
    bytesTitle.textContent = `In memory ${gridTitle(layout)}`;
    logicalTitle.textContent = `${from === "map" ? "In the box" : "In the matrix"}: ${name}`;
    grids.redraw();
    board.draw(info, facts.code, theme());
    frame.details.replaceChildren(
      ...detailParts(looked(), selected),
      ...noteParts(info?.note ?? ""),
      ...noteParts(launch.note),
    );
  });
  const redraw = () => redrawFrame.schedule();
  disposer.add(() => redrawFrame.cancel());
  const resized = new ResizeObserver(redraw);
  resized.observe(frame.view);
  disposer.add(() => resized.disconnect());

  let factsKey = "";

  async function load(): Promise<void> {
    launch = source.get<Launch>("launch");
    frame.setHeader(source.get<Header>("header"));
    if (launch.empty) {
      frame.setPlaceholder({ kind: "empty", text: launch.empty });
      transport.load({ length: 0, granularities: [{ id: "event", label: "event" }], describe: () => "" });
      return;
    }
    if (source.get<string>("launch_key") !== factsKey) await loadLaunch(launch);
    else if (facts) facts = { ...facts, code: source.get<Record<string, Code>>("code") };
    frame.setPlaceholder(null);
    showFrame();
  }

  async function loadLaunch(next: Launch): Promise<void> {
    factsKey = source.get<string>("launch_key");
    info = undefined;
    areas = source.get<Area[]>("areas");
    maps = source.get<TensorMap[]>("maps");
    const tiles = source.get<Tile[]>("tiles");
    const moments = await readMoments(source);
    facts = { moments, tiles, roles: next.roles, code: source.get<Record<string, Code>>("code") };
    toolbar.showLaunch(next, tiles);
    editor.reset(next, facts, maps, areas);
    board.reset();
    relayout();
    following.steps({
      moments,
      granularities: granularitiesOf(moments),
      describe: (position) =>
        position === 0 || !facts
          ? "Nothing has touched shared memory yet."
          : momentSentence(facts, position - 1),
      eventsOfSelection: () => eventsOf(moments, selected, editor.tile, tiles),
    });
  }

  function showFrame(): void {
    const before = info?.moment;
    info = source.get<FrameInfo[]>("frames")[following.frame];
    if (before !== undefined && info?.moment !== before) openUsed();
    redraw();
  }

  /** Opens the tile that the last moment copied or read: of two operands, the one that was looked at. */
  function openUsed(): void {
    if (!follows || !facts || !info || info.moment === 0) return;
    const { tile, other } = facts.moments;
    const used = [tile[info.moment - 1], other[info.moment - 1]].filter((id) => id !== undefined && id >= 0);
    const same = used.find((id) => facts?.tiles[id as number]?.operand === editor.descriptor.operand);
    const next = same ?? used[0];
    if (next !== undefined && next !== editor.tile) openTile(next);
  }

  const following = followSession({ source, selection, disposer, transport, frame, load, show: showFrame });
  disposer.add(
    selection.on((value, origin) => {
      const mine = value.cta === undefined || value.cta === launch?.cta;
      const address = mine && value.address?.startsWith("smem") ? parseSmem(value.address) : undefined;
      selected = address === undefined ? undefined : address - (address % 16);
      if (origin !== frame && selected !== undefined) openAt(selected);
      redraw();
    }),
  );
  frame.setHeader(source.get<Header>("header"));
  frame.setPlaceholder({ kind: "loading", text: "Reading shared memory." });
  following.reload();
}

/** The address arithmetic of this page, for the tests that hold it against the emulator's. */
export * as arithmetic from "./arithmetic";
export default defineWidget({ name: "shared_memory", version: 1, render });
