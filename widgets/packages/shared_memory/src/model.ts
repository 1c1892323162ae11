// What is shown: a CTA's window at a moment, the tile that is open, the chunk that is selected.

import { TensorWindow } from "@sglab/core";
import type { Range } from "@sglab/memory/cividis";
import { LINE, readMoments } from "./data";
import type { Looked } from "./details";
import { Editor, tileAt } from "./editor";
import { elementAtAddress, type Run, runsIn } from "./element";
import { type Element, elementHere } from "./layout";
import { questionOfMap } from "./map_panel";
import type {
  Area,
  ElementSpan,
  FrameInfo,
  InstructionBanks,
  Launch,
  Pipeline,
  SharedMemorySource,
  TensorMap,
} from "./protocol";
import type { Content } from "./toolbar";
import { chunkRuns, chunksOf, touchedBy } from "./track";
import { type Facts, type Held, isStruct, writtenIn } from "./words";

const NO_RANGE: Range = { low: 0, high: 0 };
const SAMPLED = 400; // pieces, for the range of colours

export interface Changes {
  /** Something else is to be drawn. */
  redraw: () => void;
  /** The editor shows something else. */
  relayout: () => void;
  /** A tile or an area was opened. */
  opened: () => void;
  failed: (error: unknown) => void;
}

export class Model {
  readonly editor = new Editor();
  launch: Launch | undefined;
  facts: Facts | undefined;
  areas: Area[] = [];
  maps: TensorMap[] = [];
  banks: InstructionBanks[] = [];
  pipelines: Pipeline[] = [];
  info: FrameInfo | undefined;
  /** Address of the selected chunk of 16 bytes. */
  selected: number | undefined;
  /** The requested element, as long as its chunk is selected. */
  element: Element | undefined;
  content: Content = "places";
  /** Colours by element type: numbers of several kinds have no common scale. */
  readonly ranges = new Map<string, Range>();
  readonly #rows: TensorWindow;
  readonly #written: TensorWindow;
  readonly #changes: Changes;
  /** Chunks that the load or store touched that was just made. */
  #lanes: Set<number> | undefined;
  #elements: ElementSpan[] = [];
  #follows = true;
  #key = "";

  constructor(
    private readonly source: SharedMemorySource,
    changes: Changes,
  ) {
    this.#changes = changes;
    this.#rows = new TensorWindow(source, "bytes", 64, changes.redraw, changes.failed);
    this.#written = new TensorWindow(source, "written", 64, changes.redraw, changes.failed);
  }

  /** Reads what Python published; true where it is another launch, or another CTA. */
  async load(launch: Launch): Promise<boolean> {
    const { source } = this;
    this.launch = launch;
    const key = source.get("launch_key");
    const code = source.get("code");
    if (key === this.#key && this.facts) {
      this.facts = { ...this.facts, code };
      return false;
    }
    this.#key = key;
    this.info = undefined;
    this.areas = source.get("areas");
    this.maps = source.get("maps");
    this.banks = source.get("banks");
    this.pipelines = source.get("pipelines");
    this.#elements = source.get("elements");
    const moments = await readMoments(source);
    this.facts = { moments, tiles: source.get("tiles"), roles: launch.roles, code };
    this.editor.reset(launch, this.facts, this.maps, this.areas, ({ start, bytes }) =>
      this.#runsOf(start, bytes),
    );
    return true;
  }

  showFrame(number: number): void {
    const before = this.info?.moment;
    this.info = this.source.get("frames")[number];
    const made = this.info?.accesses.find(({ when }) => when === "just made");
    this.#lanes = made && new Set(chunkRuns(made).flatMap(([from, to]) => chunksOf(from, to)));
    if (before !== undefined && this.info?.moment !== before) this.#openUsed();
    const { raw } = this.editor;
    if (this.editor.follow(this.#runsOf(raw.start, raw.bytes))) this.#changes.relayout();
    this.#rows.follow();
    this.#written.follow();
    this.#changes.redraw();
  }

  /** Another one where it is another launch, or another CTA. */
  get launchKey(): string {
    return this.#key;
  }

  // Bytes

  readonly bytesAt = (address: number): ArrayLike<number> | undefined => {
    const { info, launch } = this;
    if (!info?.alive || !launch || address + 16 > launch.bytes) return undefined;
    const row = this.#rows.row(info.rows[0] + Math.floor(address / LINE));
    return row && Array.from({ length: 16 }, (_, i) => row[(address % LINE) + i] as number);
  };

  /** Mask of the chunk's bytes that have been written. */
  readonly writtenAt = (address: number): number | undefined => {
    const { info, launch } = this;
    if (!info?.alive || !launch || address + 16 > launch.bytes) return undefined;
    const row = this.#written.row(info.rows[0] + Math.floor(address / LINE));
    const at = (address % LINE) / 8;
    return row && (row[at] as number) | ((row[at + 1] as number) << 8);
  };

  readonly valuesAt = (address: number): Held[] | undefined => {
    const bytes = this.bytesAt(address);
    const element = this.elementOf(address);
    const held = bytes && element ? writtenIn(bytes, element, this.writtenAt(address)) : [];
    return held.length ? held : undefined;
  };

  /** As the open tile has it; outside of it as accesses say. */
  readonly elementOf = (address: number): string => {
    const { layout } = this.editor;
    if (layout.byAddress.has(address)) return elementHere(layout, address);
    return elementAtAddress(this.#runsOf(address, 16), address);
  };

  /** Whether what just happened touched these 16 bytes: of a load or store, its lanes' own addresses count. */
  readonly isTouched = (address: number): boolean =>
    this.#lanes?.has(address) ?? this.touched.some(([from, to]) => address < to && address + 16 > from);

  get touched(): [number, number][] {
    return this.facts && this.info ? touchedBy(this.facts, this.info.moment) : [];
  }

  get looked(): Looked {
    const { layout, from, map } = this.editor;
    const box = from === "map" && map ? questionOfMap(map) : undefined;
    const globalBase = map?.map.address ?? "0x0";
    return {
      layout,
      element: this.element?.chunk === this.selected ? this.element : undefined,
      frame: this.info,
      areas: this.areas,
      bytes: this.bytesAt,
      elementOf: this.elementOf,
      written: this.writtenAt,
      box,
      globalBase,
    };
  }

  /** Colours span the open tile's values, without the outermost. */
  measureRange(): void {
    if (this.content !== "values") return;
    const { layout } = this.editor;
    const every = Math.max(1, Math.ceil(layout.pieces.length / SAMPLED));
    const values = new Map<string, number[]>();
    layout.pieces.forEach(({ address }, i) => {
      const held = i % every ? undefined : this.valuesAt(address);
      const [first] = held ?? [];
      if (!held || !first) return;
      const colored = isStruct(this.elementOf(address)) ? [first] : held; // a struct by its first member
      const known = values.get(first.element) ?? [];
      known.push(...colored.map(({ value }) => value as number).filter(Number.isFinite));
      values.set(first.element, known);
    });
    this.ranges.clear();
    for (const [element, numbers] of values) {
      numbers.sort((a, b) => a - b);
      const at = (share: number) => numbers[Math.round(share * (numbers.length - 1))] ?? 0;
      this.ranges.set(element, { low: at(0.02), high: at(0.98) });
    }
  }

  readonly rangeOf = (element: string): Range => this.ranges.get(element) ?? NO_RANGE;

  // Changes

  readonly setContent = (next: Content): void => {
    this.content = next;
    this.#changes.redraw();
  };

  readonly toggleContent = (): void => this.setContent(this.content === "places" ? "values" : "places");

  readonly setFollow = (follows: boolean): void => {
    this.#follows = follows;
    this.#openUsed();
  };

  readonly edit = (change: Parameters<Editor["edit"]>[0]): void => {
    this.editor.change(change);
    this.#changes.relayout();
  };

  readonly openTile = (id: number): void => {
    if (!this.facts) return;
    this.editor.openTile(id, this.facts, this.maps, this.info);
    this.#changes.opened();
  };

  /** Shows the open tile as the launch has it. */
  readonly undoEdits = (): void => this.openTile(this.editor.tile);

  readonly stepTile = (by: number): void => {
    const count = this.facts?.tiles.length ?? 0;
    if (count) this.openTile((this.editor.tile + by + count) % count);
  };

  openArea(area: Area | undefined, address: number): void {
    const begin = address - (address % 1024);
    const whole = area && area.kind !== "dynamic" && area.bytes >= 16;
    const opened = whole ? area : { name: area?.name ?? "", start: begin, bytes: 4096 };
    this.editor.openArea(opened, this.#runsOf(opened.start, opened.bytes));
    this.#changes.opened();
  }

  #runsOf(start: number, bytes: number): Run[] {
    return runsIn(this.#elements, this.info?.moment ?? 0, start, start + bytes);
  }

  /** What the address is part of, unless it is open already. */
  openAt(address: number): void {
    if (this.editor.layout.byAddress.has(address)) return;
    const found = tileAt(this.facts?.tiles ?? [], address);
    const inside = ({ start, bytes }: Area) => address >= start && address < start + bytes;
    if (found) this.openTile(found.id);
    else this.openArea(this.areas.find(inside), address);
  }

  /** Opens the tile that the last moment copied or read: of two operands, the one that was looked at. */
  #openUsed(): void {
    const { facts, info, editor } = this;
    if (!this.#follows || !facts || !info || info.moment === 0) return;
    const { tile, other } = facts.moments;
    const used = [tile[info.moment - 1], other[info.moment - 1]].filter((id) => id !== undefined && id >= 0);
    const same = used.find((id) => facts.tiles[id as number]?.operand === editor.descriptor.operand);
    const next = same ?? used[0];
    if (next !== undefined && next !== editor.tile) this.openTile(next);
  }
}
