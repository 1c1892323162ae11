// The pane at the right: the selected cell in words, the matrices of this moment, what is in flight.

import { breakable, cssBackground, h, lookOf } from "@sglab/core";
import { definitions, findingParts, noteParts, type Row } from "@sglab/memory/parts";
import type { Finding } from "@sglab/memory/protocol";
import { FORMAT_LABELS, FORMATS, type Format, textOf } from "@sglab/memory/words";
import { addressText, logicalOf, type Region, regionAt } from "./data";
import type { Allocation, FrameInfo, Tile } from "./protocol";
import { formatOf } from "./reading";
import {
  allocatorOf,
  blockTexts,
  cellTitle,
  codeOf,
  eventText,
  type Facts,
  reachText,
  stateText,
  tileName,
} from "./words";

export interface CellPlace {
  rank: number;
  lane: number;
  column: number;
}

export interface Looked {
  facts: Facts;
  frame: FrameInfo;
  regions: Region[];
  word: (rank: number, lane: number, column: number) => number | undefined;
}

/** Row and column of the matrix that owns a cell; and of every other matrix that was ever laid over it. */
function logicalRows(looked: Looked, place: CellPlace, region: Region | undefined): Row[] {
  const { tiles } = looked.facts;
  const owner = region ? tiles[region.tile] : undefined;
  if (!owner) return [];
  const at = logicalOf(owner, place.rank, place.lane, place.column);
  if (!at) return [];
  const last = at.column + owner.packed - 1;
  const columns = owner.packed > 1 ? `columns ${at.column}–${last}` : `column ${at.column}`;
  return [["in the matrix", `row ${at.row}, ${columns} of ${tileName(owner)}`]];
}

export function cellRows(looked: Looked, place: CellPlace, press: (moment: number) => HTMLElement): Row[] {
  const { facts, frame, regions } = looked;
  const { rank, lane, column } = place;
  const region = regionAt(regions, rank, lane, column);
  const allocation = frame.allocations[rank]?.find(
    (a) => column >= a.column && column < a.column + a.columns,
  );
  const word = looked.word(rank, lane, column);
  const rows: Row[] = [["raw address", `0x${((lane << 16) | column).toString(16).padStart(8, "0")}`]];
  const event = (moment: number) => (moment < 0 ? eventText(facts, moment) : press(moment));
  if (allocation) {
    rows.push(["allocation", columnsText(allocation)]);
    rows.push(["since", event(allocatorOf(facts, frame.moment, rank, column))]);
    rows.push(["state", stateText(region)]);
  } else rows.push(["allocation", "free"]);
  if (region && region.state !== 0) {
    if (word !== undefined) {
      const own = formatOf(facts, "own", region);
      if (own !== "hex") rows.push([`${FORMAT_LABELS[own]}, its own`, textOf(word, own)]);
      for (const format of FORMATS)
        if (format !== own || own === "hex") rows.push([FORMAT_LABELS[format], textOf(word, format)]);
    }
    rows.push(...logicalRows(looked, place, region));
    rows.push(["written by", event(region.writer)]);
    rows.push(["read by", region.reader < 0 ? "no warp since" : event(region.reader)]);
  }
  if (region) {
    const late = region.next >= 0 && region.next < frame.moment;
    rows.push([
      late ? "in flight" : "next",
      region.next < 0 ? "nothing touches it again" : event(region.next),
    ]);
  }
  rows.push(["ld and st by", reachText(lane, facts.launch.warpsPerCta)]);
  return rows;
}

function columnsText({ number, column, columns }: Allocation): string {
  return `${number}: columns ${column}–${column + columns - 1}`;
}

export function cellText(looked: Looked, place: CellPlace, format: Format): string {
  const { facts, regions } = looked;
  const { rank, lane, column } = place;
  const region = regionAt(regions, rank, lane, column);
  const word = looked.word(rank, lane, column);
  const lines = [`${addressText(lane, column)}, CTA ${facts.launch.ctas[rank]}: ${stateText(region)}`];
  if (region && region.state !== 0) {
    if (word !== undefined) lines.push(`${FORMAT_LABELS[format]}  ${textOf(word, format)}`);
    for (const [, text] of logicalRows(looked, place, region)) lines.push(String(text));
    if (region.writer >= 0) lines.push(`written by ${eventText(facts, region.writer)}`);
  }
  lines.push(`ld and st by ${reachText(lane, facts.launch.warpsPerCta)}`);
  return lines.join("\n");
}

export function detailParts(
  looked: Looked,
  place: CellPlace | undefined,
  tile: number,
  dark: boolean,
  pickTile: (id: number) => void,
  select: (place: CellPlace) => void,
  goToEvent: (event: number) => void,
): HTMLElement[] {
  const { facts, frame, regions } = looked;
  const press = (moment: number): HTMLElement => {
    const text = eventText(facts, moment);
    const title = `${codeOf(facts, moment)?.opcode ?? ""}: go to where it was issued`;
    const event = facts.moments.position[moment] as number;
    const link = h("button", { type: "button", class: "sg-link", title, "data-event": event }, text);
    link.addEventListener("click", () => goToEvent(event));
    return link;
  };
  const placeOf = ({ rank, address }: Finding): CellPlace => ({
    rank: Math.min(rank, facts.launch.ctas.length - 1),
    lane: address >> 16,
    column: address & 0xffff,
  });
  const parts = findingParts(
    frame.findings,
    (finding) => addressText(placeOf(finding).lane, placeOf(finding).column),
    (finding) => select(placeOf(finding)),
  );
  if (place)
    parts.push(
      definitions(
        cellTitle(facts.launch, place.rank, place.lane, place.column),
        cellRows(looked, place, press),
      ),
    );
  else
    parts.push(
      h(
        "p",
        { class: "smv-note" },
        "Press a cell, or go into the map with Tab and walk with the arrow keys, to see what it holds.",
      ),
    );
  const present = [...new Set(regions.filter((r) => r.state > 0).map((r) => r.tile))]
    .map((id) => facts.tiles[id])
    .filter((each): each is Tile => each !== undefined);
  if (present.length) parts.push(tileList(present, tile, dark, pickTile));
  const picked = facts.tiles[tile];
  if (picked)
    parts.push(
      h(
        "div",
        {},
        h("div", { class: "sg-heading" }, `Layout of ${picked.name}, cta_group::${picked.ctaGroup}`),
        h("ul", { class: "stm-list" }, ...blockTexts(facts, picked).map((text) => h("li", {}, text))),
      ),
    );
  if (frame.inFlight.length)
    parts.push(
      h(
        "div",
        {},
        h("div", { class: "sg-heading" }, "Issued, not carried out yet"),
        h("ul", { class: "stm-list" }, ...frame.inFlight.map((text) => h("li", {}, breakable(text)))),
      ),
    );
  return [...parts, ...noteParts(frame.note), ...noteParts(facts.launch.note)];
}

function tileList(tiles: Tile[], selected: number, dark: boolean, pick: (id: number) => void): HTMLElement {
  const items = tiles.map((tile) => {
    const swatch = h("span", { class: "stm-swatch", "aria-hidden": "true" });
    swatch.style.background = cssBackground(lookOf(tile.id, dark));
    const [, lane, , column] = tile.blocks[0] as [number, number, number, number];
    const button = h(
      "button",
      {
        type: "button",
        class: "sg-button",
        "aria-pressed": String(tile.id === selected),
        "data-tile": tile.id,
      },
      swatch,
      `${tileName(tile)} at ${addressText(lane, column)}`,
    );
    button.addEventListener("click", () => pick(tile.id));
    return h("li", {}, button);
  });
  return h(
    "div",
    {},
    h("div", { class: "sg-heading" }, "Matrices here"),
    h("ul", { class: "stm-tiles" }, ...items),
  );
}
