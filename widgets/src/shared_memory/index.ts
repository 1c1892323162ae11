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
import { mover } from "../memory/motion";
import { button, noteParts, switcher } from "../memory/parts";
import { accessPanel } from "./access_panel";
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
import { COMMON, type Descriptor, descriptorOf, descriptorPanel, layoutOf } from "./descriptor_panel";
import { chunkText, detailParts, type Looked } from "./details";
import { gridTitle, makeGrids } from "./grids";
import { type Layout, refused } from "./layout";
import { layoutOfEdit, type MapEdit, mapPanel, questionOfMap } from "./map_panel";
import { pipelineTable } from "./pipeline_view";
import { chunkKey, strip } from "./strip";
import { tabs } from "./tabs";
import { eventsOf, granularitiesOf } from "./track";
import { type Facts, momentSentence, numbersIn } from "./words";

const PLAY_MS = 40;
const SAMPLED = 400; // pieces, for the range of colours
type Content = "places" | "values";

function render({ el, source, selection, disposer }: Context): void {
  const transport = new Transport();
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    onEscape: () => selection.set({}),
    keys: () => [
      { keys: ["PageDown", "n"], label: "next tile", run: () => stepTile(1) },
      { keys: ["PageUp", "p"], label: "previous tile", run: () => stepTile(-1) },
      { keys: ["/"], label: "go to an address", run: () => go.focus() },
      {
        keys: ["v"],
        label: "places or values in the cells",
        run: () => setContent(content === "places" ? "values" : "places"),
      },
      { keys: ["o"], label: "light up the chunks in their order", run: () => play() },
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
  let tile = -1;
  let descriptor: Descriptor = COMMON;
  let mapEdit: MapEdit | undefined;
  let layout: Layout = refused([]);
  let from: "descriptor" | "map" = "descriptor";
  let lit = 0;
  let selected: number | undefined;
  let content: Content = "places";
  let range: Range = { low: 0, high: 0 };
  let factsKey = "";
  let drawn = Promise.resolve();
  let playing: ReturnType<typeof setInterval> | undefined;
  disposer.add(() => clearInterval(playing));

  const window = new TensorWindow(source, "bytes", 64, () => redraw(), fail);
  const bytesAt = (address: number): ArrayLike<number> | undefined => {
    if (!info?.alive || !launch || address + 16 > launch.bytes) return undefined;
    const row = window.row(info.rows[0] + Math.floor(address / LINE));
    return row ? Array.from({ length: 16 }, (_, i) => row[(address % LINE) + i] as number) : undefined;
  };

  // Controls
  const tilePicker = h("select", { class: "sg-select ssm-tile", "aria-label": "Tile" });
  disposer.listen(tilePicker, "change", () => openTile(Number(tilePicker.value)));
  const ctaPicker = h("select", { class: "sg-select", "aria-label": "CTA" });
  disposer.listen(ctaPicker, "change", () => {
    source.call("show_cta", { cta: Number(ctaPicker.value) }).catch(fail);
  });
  const ctaBox = h("label", { class: "smv-label" }, "CTA ", ctaPicker);
  const go = h("input", {
    class: "sg-field ssm-go",
    type: "text",
    placeholder: "smem+0x…",
    "aria-label": "Go to an address in shared memory",
    spellcheck: "false",
  });
  disposer.listen(go, "keydown", (event) => {
    if (event.key === "Enter") goTo(go.value);
  });
  const contents = switcher<Content>(
    "In the cells",
    [
      ["places", "places"],
      ["values", "values"],
    ],
    (picked) => setContent(picked),
  );
  frame.toolbar.append(
    ctaBox,
    h("label", { class: "smv-label" }, "tile ", tilePicker),
    button("◂", "Previous tile (PageUp)", () => stepTile(-1)),
    button("▸", "Next tile (PageDown)", () => stepTile(1)),
    contents.root,
    go,
  );

  // The picture
  const stripBox = h("div");
  const grids = makeGrids(
    {
      theme,
      tooltip: frame.tooltip,
      scene: () => ({ layout, lit, selected, touched: touched()[0], content, range, values: valuesAt }),
      describe: (address) => chunkText(looked(), address),
      select: (address) => select(address),
    },
    disposer,
  );
  const bytesTitle = h("div", { class: "sg-heading" });
  const logicalTitle = h("div", { class: "sg-heading" });
  const problem = h("p", { class: "ssm-error", role: "alert" });
  const order = h("input", { type: "range", class: "ssm-order", min: 0, "aria-label": "Chunks read so far" });
  const orderText = h("output");
  disposer.listen(order, "input", () => light(Number(order.value)));
  const orderRow = h(
    "div",
    { class: "ssm-row" },
    h("span", { class: "smv-label" }, "read so far", order),
    orderText,
    button("▶ in order", "Light up the chunks in the order in which they are read (o)", () => play()),
    button("all", "Light up all chunks", () => light(layout.pieces.length)),
  );
  const key = h("div", { class: "ssm-row" });
  const panel = descriptorPanel((next) => editDescriptor(next));
  const mapView = mapPanel(
    (next) => editMap(next),
    (number) => {
      const map = maps[number];
      if (map)
        editMap({ map, coordinates: map.dims.map(() => 0), base: mapEdit?.base ?? launch?.dynamic ?? 1024 });
    },
  );
  const noMaps = h("p", { class: "smv-note" }, "No copy of this launch used a tensor map.");
  const mapBox = h("div");
  const access = accessPanel();
  const pipelineBox = h("div");
  const board = tabs(
    [
      ["descriptor", "smem descriptor", panel.smem],
      ["instruction", "instruction descriptor", panel.instruction],
      ["map", "tensor map", mapBox],
      ["banks", "banks", access.root],
      ["pipelines", "cp.async groups", pipelineBox],
    ],
    (picked) => {
      if (picked === "map" && mapEdit) from = "map";
      if (picked === "descriptor" || picked === "instruction") from = "descriptor";
      relayout(false);
    },
  );
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
    orderRow,
    h("div", { class: "ssm-panel" }, board.root),
  );

  const valuesAt = (address: number) => {
    const bytes = bytesAt(address);
    return bytes && numbersIn(bytes, layout.element);
  };

  function looked(): Looked {
    const box = from === "map" && mapEdit ? questionOfMap(mapEdit) : undefined;
    return { layout, frame: info, areas, bytes: bytesAt, box, globalBase: mapEdit?.map.address ?? "0x0" };
  }

  /** Byte ranges that the last moment touched. */
  function touched(): [number, number][] {
    if (!facts || !info || info.moment === 0) return [];
    const last = info.moment - 1;
    const { moments, tiles } = facts;
    const start = moments.start[last] as number;
    if (moments.bytes[last]) return [[start, start + (moments.bytes[last] as number)]];
    return [moments.tile[last], moments.other[last]]
      .map((id) => tiles[id as number])
      .filter((each) => each !== undefined)
      .map((each) => [each.start, each.start + each.bytes]);
  }

  function setContent(next: Content): void {
    content = next;
    redraw();
  }

  function light(count: number): void {
    clearInterval(playing);
    playing = undefined;
    lit = count;
    redraw();
  }

  function play(): void {
    const all = layout.pieces.length;
    if (playing !== undefined || matchMedia("(prefers-reduced-motion: reduce)").matches) {
      light(all);
      return;
    }
    light(lit >= all ? 0 : lit);
    const step = Math.max(1, Math.round(all / 128));
    playing = setInterval(() => {
      lit = Math.min(layout.pieces.length, lit + step);
      redraw();
      if (lit >= layout.pieces.length) light(layout.pieces.length);
    }, PLAY_MS);
  }

  function relayout(fresh: boolean): void {
    const bytes = launch?.bytes ?? 0;
    layout = from === "map" && mapEdit ? layoutOfEdit(mapEdit) : layoutOf(descriptor, bytes);
    if (fresh || playing === undefined) {
      clearInterval(playing);
      playing = undefined;
      lit = layout.pieces.length;
    }
    grids.resize();
    redraw();
  }

  function editDescriptor(next: Descriptor): void {
    descriptor = next;
    from = "descriptor";
    relayout(true);
  }

  function editMap(next: MapEdit): void {
    mapEdit = next;
    from = "map";
    relayout(true);
  }

  function openTile(id: number): void {
    const chosen = facts?.tiles[id];
    if (!chosen) return;
    tile = id;
    if (chosen.source === "map") {
      const map = maps[chosen.map];
      if (map) mapEdit = { map, coordinates: coordinatesOf(id, map), base: chosen.start };
      from = "map";
      if (["descriptor", "instruction"].includes(board.current)) board.show("map");
    } else {
      descriptor = descriptorOf(chosen);
      from = "descriptor";
      if (board.current === "map") board.show("descriptor");
    }
    relayout(true);
  }

  /** Where the box was loaded from last. */
  function coordinatesOf(id: number, map: TensorMap): number[] {
    const { moments } = facts as Facts;
    let found = -1;
    for (let i = 0; i < moments.length; i++)
      if (moments.tile[i] === id && (found < 0 || i < (info?.moment ?? 0))) found = i;
    return map.dims.map((_, i) => (found < 0 ? 0 : (moments.coordinates[found * 5 + i] as number)));
  }

  function stepTile(by: number): void {
    const count = facts?.tiles.length ?? 0;
    if (count) openTile((tile + by + count) % count);
  }

  function goTo(text: string): void {
    const address = parseSmem(text);
    if (address === undefined || !launch || address >= launch.bytes) {
      frame.notify(
        "error",
        `“${text}” is no address here: write smem+0x… below 0x${(launch?.bytes ?? 0).toString(16)}.`,
      );
      return;
    }
    frame.clearNotice();
    const chunk = address - (address % 16);
    if (!layout.byAddress.has(chunk)) openAt(chunk);
    select(chunk);
    grids.revealPiece(layout.byAddress.get(chunk), chunk);
  }

  /** The tile that an address is part of: a box if there is one. */
  function openAt(address: number): void {
    const inside = (facts?.tiles ?? []).filter(
      (each) => address >= each.start && address < each.start + each.bytes,
    );
    const found = inside.find((each) => each.source === "map") ?? inside[0];
    if (found) openTile(found.id);
  }

  function select(address: number): void {
    selection.set({ ...selection.value, address: smem(address), cta: launch?.cta }, frame);
    const piece = layout.byAddress.get(address);
    if (piece) grids.revealPiece(piece, address);
  }

  function pickArea(area: Area): void {
    if (area.tile >= 0) openTile(area.tile);
    else {
      const chunk = area.start - (area.start % 16);
      openAt(chunk);
      select(chunk);
    }
  }

  function measureRange(): void {
    if (content !== "values") return;
    const every = Math.ceil(layout.pieces.length / SAMPLED);
    const values = layout.pieces
      .filter((_, i) => i % Math.max(1, every) === 0)
      .flatMap((piece) => valuesAt(piece.address) ?? [])
      .filter(Number.isFinite)
      .sort((a, b) => a - b);
    const at = (share: number) => values[Math.round(share * (values.length - 1))] ?? 0;
    range = { low: at(0.02), high: at(0.98) };
  }

  const redrawFrame = framed(() => {
    if (!launch || !facts) return;
    measureRange();
    contents.show(content);
    tilePicker.value = String(tile);
    const width = stripBox.clientWidth;
    if (width)
      stripBox.replaceChildren(
        strip({
          areas,
          bytes: launch.bytes,
          width,
          frame: info,
          shown: [layout.start, layout.end],
          touched: touched(),
          pick: pickArea,
        }),
      );
    key.replaceChildren(chunkKey(theme().dark));
    problem.textContent = layout.problems.map((text) => `▲ ${text}`).join(" ");
    const name = facts.tiles[tile]?.name ?? "descriptor";
    bytesTitle.textContent = `In memory ${gridTitle(layout)}`;
    logicalTitle.textContent = `In the matrix: ${name}`;
    order.max = String(layout.pieces.length);
    order.value = String(lit);
    orderText.textContent = `${lit} of ${layout.pieces.length} chunks of 16 bytes`;
    grids.redraw();
    panel.show(descriptor);
    if (mapEdit) {
      if (!mapBox.contains(mapView.root)) mapBox.replaceChildren(mapView.root);
      mapView.show(mapEdit, maps);
    } else mapBox.replaceChildren(noMaps);
    access.show(info, facts.code, layout, theme());
    pipelineBox.replaceChildren(pipelineTable(info?.pipelines ?? []));
    frame.details.replaceChildren(...detailParts(looked(), selected), ...noteParts(launch.note));
  });
  const redraw = () => redrawFrame.schedule();
  disposer.add(() => redrawFrame.cancel());
  const resized = new ResizeObserver(redraw);
  resized.observe(frame.view);
  disposer.add(() => resized.disconnect());

  // Following Python
  async function load(): Promise<void> {
    const next = source.get<Launch>("launch");
    frame.setHeader(source.get<Header>("header"));
    launch = next;
    if (next.empty) {
      frame.setPlaceholder({ kind: "empty", text: next.empty });
      transport.load({ length: 0, granularities: [{ id: "event", label: "event" }], describe: () => "" });
      return;
    }
    areas = source.get<Area[]>("areas");
    maps = source.get<TensorMap[]>("maps");
    const code = source.get<Record<string, Code>>("code");
    const tiles = source.get<Tile[]>("tiles");
    const fresh = source.get<string>("launch_key") !== factsKey;
    if (fresh) {
      factsKey = source.get<string>("launch_key");
      facts = { moments: await readMoments(source), code, tiles };
      showChoices(next, tiles);
      loadTrack();
    } else if (facts) facts = { ...facts, code };
    frame.setPlaceholder(null);
    const frames = source.get<FrameInfo[]>("frames");
    info = frames[source.live ? 0 : transport.position];
    if (fresh) firstTile(tiles);
    if (source.live && info && !transport.moving && info.moment !== transport.position)
      transport.load(transport.track, info.moment);
    redraw();
  }

  function firstTile(tiles: Tile[]): void {
    tile = -1;
    mapEdit = undefined;
    const map = maps.find((each) => !each.im2col);
    if (map) mapEdit = { map, coordinates: map.dims.map(() => 0), base: launch?.dynamic ?? 1024 };
    if (launch?.arch.startsWith("sm_9"))
      descriptor = { ...COMMON, flavour: "wgmma", bits: (1n << 62n) | 0x404000010040n };
    if (tiles.length) openTile(0);
    else relayout(true);
  }

  function showChoices(next: Launch, tiles: Tile[]): void {
    ctaBox.hidden = next.ctas.length < 2 || !source.live;
    ctaPicker.replaceChildren(...next.ctas.map((cta) => h("option", { value: cta }, String(cta))));
    ctaPicker.value = String(next.cta);
    tilePicker.replaceChildren(
      ...tiles.map((each) => h("option", { value: each.id }, `${smem(each.start)}: ${each.name}`)),
    );
    tilePicker.disabled = !tiles.length;
  }

  const sentence = (at: number) =>
    at === 0 || !facts ? "Nothing has touched shared memory yet." : momentSentence(facts, at - 1);
  const timeAt = (at: number) =>
    `instruction ${at === 0 || !facts ? 0 : (facts.moments.position[at - 1] as number).toLocaleString("en-US")}`;

  function loadTrack(): void {
    if (!facts) return;
    const { moments, tiles } = facts;
    const frames = source.get<FrameInfo[]>("frames");
    if (!source.live) {
      const at = (index: number) => frames[index]?.moment ?? 0;
      transport.load({
        length: frames.length - 1,
        granularities: [{ id: "moment", label: "recorded moment" }],
        describe: (index) => sentence(at(index)),
        time: (index) => `${timeAt(at(index))}, event ${at(index)} of ${moments.length}`,
      });
      return;
    }
    const granularities = granularitiesOf(moments);
    const events = () => eventsOf(moments, selected, tile, tiles);
    transport.load(
      {
        length: moments.length,
        granularities,
        describe: sentence,
        time: timeAt,
        eventsOfSelection: events,
        move: mover(
          () => transport.position,
          moments.length,
          granularities,
          events,
          async (target) => {
            await source.call("go", { moment: target });
            await drawn;
          },
        ),
      },
      frames[0]?.moment ?? 0,
    );
  }

  function announce(): void {
    if (!facts || !info || info.moment === 0) return;
    selection.set({ ...selection.value, moment: facts.moments.position[info.moment - 1] as number }, frame);
  }

  function follow(event: number): void {
    if (!facts || transport.moving) return;
    const { moments } = facts;
    let moment = 0;
    while (moment < moments.length && (moments.position[moment] as number) <= event) moment += 1;
    if (source.live) transport.goTo(moment);
    else
      transport.goTo(
        Math.max(
          0,
          source.get<FrameInfo[]>("frames").findLastIndex((each) => each.moment <= moment),
        ),
      );
  }

  const reload = () => {
    drawn = load().catch((error: unknown) => {
      frame.setPlaceholder({ kind: "error", text: (error as Error).message, remedy: "Run the cell again." });
    });
  };
  source.onChange("revision", reload);
  source.onChange("stale", () => {
    if (source.live) source.call("catch_up").catch(fail);
  });
  disposer.add(transport.failed.on(fail));
  disposer.add(
    transport.changed.on(() => {
      if (!source.live) info = source.get<FrameInfo[]>("frames")[transport.position];
      if (!transport.moving) announce();
      redraw();
    }),
  );
  disposer.add(
    selection.on((value, origin) => {
      const mine = value.cta === undefined || value.cta === launch?.cta;
      selected = mine && value.address?.startsWith("smem") ? parseSmem(value.address) : undefined;
      if (selected !== undefined) selected -= selected % 16;
      if (origin !== frame && selected !== undefined && !layout.byAddress.has(selected)) openAt(selected);
      if (origin !== frame && value.moment !== undefined) follow(value.moment);
      redraw();
    }),
  );
  frame.setHeader(source.get<Header>("header"));
  frame.setPlaceholder({ kind: "loading", text: "Reading shared memory." });
  reload();
}

/** The address arithmetic of this page, for the tests that hold it against the emulator's. */
export * as arithmetic from "./arithmetic";
export default defineWidget({ name: "shared_memory", version: 1, render });
