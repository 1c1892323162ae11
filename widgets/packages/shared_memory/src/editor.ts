// What the two sides show: an operand by its descriptor, a box by its tensor map, or plain rows; and edits of them.

import { COMMON, type Descriptor, descriptorOf, layoutOf, shapeText } from "./descriptor_panel";
import type { Run } from "./element";
import { type Layout, refused } from "./layout";
import { layoutOfEdit, type MapEdit } from "./map_panel";
import type { Area, FrameInfo, Launch, TensorMap, Tile } from "./protocol";
import { layoutOfRaw, type RawEdit } from "./raw_panel";
import type { Facts } from "./words";

export type From = "descriptor" | "map" | "raw";

const WGMMA: Descriptor = { ...COMMON, flavour: "wgmma", bits: (1n << 62n) | 0x4000010040n };

export class Editor {
  tile = -1;
  from: From = "raw";
  descriptor: Descriptor = COMMON;
  map: MapEdit | undefined;
  raw: RawEdit = {
    ...{ name: "", start: 1024, bytes: 1024, pitch: 128 },
    ...{ reading: "accessed", swizzle: "none", runs: [] },
  };
  layout: Layout = refused([]);
  /** Whether a reader has changed what the launch has. */
  edited = false;
  #bytes = 0;

  /** Another launch: what it has most of is shown first. */
  reset(
    launch: Launch,
    facts: Facts,
    maps: readonly TensorMap[],
    areas: readonly Area[],
    runsOf: (area: Area) => Run[],
  ): void {
    this.#bytes = launch.bytes;
    this.tile = -1;
    this.descriptor = launch.arch.startsWith("sm_9") ? WGMMA : COMMON;
    const map = maps.find((each) => !each.im2col && !each.interleave);
    this.map = map && { map, coordinates: map.dims.map(() => 0), base: launch.dynamic };
    const variable = areas.find((area) => area.kind === "symbol" || area.kind === "dynamic");
    if (variable) this.openArea(variable, runsOf(variable));
    if (facts.tiles.length) this.openTile(0, facts, maps, undefined);
  }

  show(from: From): void {
    this.from = from === "map" && !this.map ? "raw" : from;
    this.#relayout();
  }

  edit(change: { descriptor?: Descriptor; map?: MapEdit; raw?: RawEdit }): void {
    if (change.descriptor) this.descriptor = change.descriptor;
    if (change.map) this.map = change.map;
    if (change.raw) this.raw = change.raw;
    this.show(change.descriptor ? "descriptor" : change.map ? "map" : "raw");
  }

  /** An edit of the reader's. */
  change(change: Parameters<Editor["edit"]>[0]): void {
    this.edit(change);
    this.edited = !change.raw;
  }

  /** What accesses say that the open array holds by now; true where that is new. */
  follow(runs: readonly Run[]): boolean {
    if (JSON.stringify(runs) === JSON.stringify(this.raw.runs)) return false;
    this.raw = { ...this.raw, runs };
    if (this.from !== "raw") return false;
    this.#relayout();
    return true;
  }

  /** `runs`: what accesses say that it holds. */
  openArea({ name, start, bytes }: Pick<Area, "name" | "start" | "bytes">, runs: readonly Run[]): void {
    this.tile = -1;
    this.edited = false;
    this.edit({ raw: { ...this.raw, name, start, bytes, reading: "accessed", runs, part: undefined } });
  }

  openTile(id: number, facts: Facts, maps: readonly TensorMap[], frame: FrameInfo | undefined): void {
    const chosen = facts.tiles[id];
    if (!chosen) return;
    this.tile = id;
    this.edited = false;
    const boxOf = (tile: Tile): MapEdit | undefined => {
      const map = maps[tile.map];
      return map && { map, coordinates: lastCoordinates(tile.id, map, facts, frame), base: tile.start };
    };
    // The other decoder shows what goes with it: the box that contains an operand, an operand in the box.
    const box = facts.tiles.find(
      ({ source, start, bytes }) => source === "map" && lies(chosen, start, bytes),
    );
    const operand = facts.tiles.find(
      (tile) => tile.source === "descriptor" && lies(tile, chosen.start, chosen.bytes),
    );
    if (chosen.source === "descriptor") {
      this.map = (box && boxOf(box)) ?? this.map;
      this.edit({ descriptor: descriptorOf(chosen) });
    } else {
      if (operand) this.descriptor = descriptorOf(operand);
      const map = boxOf(chosen);
      if (map) this.edit({ map });
    }
  }

  /** What is shown, in words. */
  title(tiles: readonly Tile[]): string {
    if (this.from === "raw") return this.raw.name || "plain rows";
    if (this.from === "map" && this.map)
      return `${this.map.map.name} at (${this.map.coordinates.join(", ")})`;
    const tile = tiles[this.tile];
    const same = tile?.source === "descriptor" && descriptorOf(tile).bits === this.descriptor.bits;
    return same && tile.operand === this.descriptor.operand ? tile.name : shapeText(this.descriptor);
  }

  #relayout(): void {
    if (this.from === "map" && this.map) this.layout = layoutOfEdit(this.map);
    else if (this.from === "descriptor") this.layout = layoutOf(this.descriptor, this.#bytes);
    else this.layout = layoutOfRaw(this.raw);
  }
}

function lies({ start }: Tile, from: number, bytes: number): boolean {
  return start >= from && start < from + bytes;
}

/** Where the box was moved from last, or will be first. */
function lastCoordinates(
  id: number,
  map: TensorMap,
  { moments }: Facts,
  frame: FrameInfo | undefined,
): number[] {
  let found = -1;
  for (let i = 0; i < moments.length; i++)
    if (moments.tile[i] === id && (found < 0 || i < (frame?.moment ?? 0))) found = i;
  return map.dims.map((_, i) => (found < 0 ? 0 : (moments.coordinates[found * 5 + i] as number)));
}

/** The tile that an address is part of: a box if there is one. */
export function tileAt(tiles: readonly Tile[], address: number): Tile | undefined {
  const inside = tiles.filter(({ start, bytes }) => address >= start && address < start + bytes);
  return inside.find((each) => each.source === "map") ?? inside[0];
}
