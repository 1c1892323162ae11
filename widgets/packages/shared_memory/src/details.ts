// The pane at the right: the selected chunk, the tile it is part of, and what else is there.

import { breakable, h } from "@sglab/core";
import { definitions, findingParts, type Row } from "@sglab/memory/parts";
import { short } from "@sglab/memory/words";
import { LINE, smem, WRITTEN } from "./data";
import { boxRow, type Element, type Layout, type MapQuestion } from "./layout";
import type { Area, FrameInfo } from "./protocol";
import { elementName, elementsText, hexWords, isStruct, pieceText, swizzleRows, writtenIn } from "./words";

export interface Looked {
  layout: Layout;
  /** The requested element. */
  element: Element | undefined;
  frame: FrameInfo | undefined;
  areas: readonly Area[];
  bytes: (address: number) => ArrayLike<number> | undefined;
  /** What 16 bytes hold, "" where it is not known. */
  elementOf: (address: number) => string;
  /** Mask of the 16 bytes that have been written. */
  written: (address: number) => number | undefined;
  /** Of a box: the map and where it starts. */
  box: MapQuestion | undefined;
  /** Where the tensor map's memory begins, as hexadecimal. */
  globalBase: string;
}

function globalText(looked: Looked, line: number, global: number | undefined, inside: number): string {
  const { box, layout, globalBase } = looked;
  const elements = 128 / layout.elementBits;
  if (global === undefined) return "outside the tensor: filled in";
  const where = `0x${(BigInt(globalBase) + BigInt(global)).toString(16)} (tensor + ${global.toLocaleString("en-US")} B)`;
  const outer = box ? boxRow(box, line) : [];
  const at = outer.length ? `, at (…, ${outer.join(", ")})` : "";
  return `${where}${at}${inside < elements ? `; ${elements - inside} of ${elements} elements outside` : ""}`;
}

const UNWRITTEN = "never written: on a GPU, what was left from before";

const UNKNOWN = "no instruction says what they hold: choose elements in the tab “plain array”";

function isSet(mask: number, byte: number): boolean {
  return ((mask >>> byte) & 1) === 1;
}

/** Where one element is, and what it holds. */
function elementRow(
  { layout, bytes, written, elementOf }: Looked,
  { row, column, address, chunk }: Element,
): Row {
  const found = layout.elementBits < 8 ? undefined : bytes(chunk);
  const here = found && writtenIn(found, elementOf(chunk), written(chunk) ?? WRITTEN);
  const held = here?.find(({ at, size }) => address >= chunk + at && address < chunk + at + size);
  const value = held ? `, holds ${short(held.value as number)}` : "";
  const place = `${smem(address)}, bank ${((address % LINE) / 4) | 0}${value}`;
  return [`[${row},${column}]`, place];
}

export function chunkRows(looked: Looked, address: number): Row[] {
  const { layout } = looked;
  const piece = layout.byAddress.get(address);
  const bytes = looked.bytes(address);
  const bank = (address % LINE) / 4;
  const rows: Row[] = [["banks", `${bank}–${bank + 3}`]];
  if (piece) {
    rows.unshift(
      ["in the tile", pieceText(layout, piece)],
      ["read as", `number ${piece.order + 1} of ${layout.pieces.length}`],
    );
    if (looked.element) rows.unshift(elementRow(looked, looked.element));
    rows.push(...swizzleRows(layout, address));
    if (looked.box) rows.push(["global memory", globalText(looked, piece.line, piece.global, piece.inside)]);
  }
  const mask = looked.written(address) ?? WRITTEN;
  if (bytes && mask === 0) rows.push(["bytes", UNWRITTEN]);
  else if (bytes) {
    const element = looked.elementOf(address);
    if (!element) rows.push(["as numbers", UNKNOWN]);
    else if (mask === WRITTEN || isStruct(element))
      rows.push([`as ${elementName(element)}`, elementsText(bytes, element, mask)]);
    const shown = Array.from(bytes, (byte, i) =>
      isSet(mask, i) ? byte.toString(16).padStart(2, "0") : "··",
    );
    rows.push(["bytes", h("span", { class: "smv-code" }, shown.join(" "))]);
    if (mask !== WRITTEN) rows.push(["··", UNWRITTEN]);
  }
  const here = looked.areas.filter(
    (area) => area.kind !== "operand" && address + 16 > area.start && address < area.start + area.bytes,
  );
  rows.push(["part of", here.map((area) => area.name).join("; ") || "nothing named"]);
  return rows;
}

export function chunkText(looked: Looked, address: number): string {
  const { layout } = looked;
  const piece = layout.byAddress.get(address);
  const bytes = looked.bytes(address);
  const lines = [`${smem(address)}, banks ${(address % LINE) / 4}–${(address % LINE) / 4 + 3}`];
  if (piece) lines.push(pieceText(layout, piece), `number ${piece.order + 1} of ${layout.pieces.length}`);
  else lines.push("no part of this tile");
  if (piece && looked.box) lines.push(globalText(looked, piece.line, piece.global, piece.inside));
  const mask = looked.written(address) ?? WRITTEN;
  if (mask === 0) lines.push("not written yet");
  else if (bytes) {
    const element = looked.elementOf(address);
    lines.push(
      element
        ? `${elementName(element)}: ${elementsText(bytes, element, mask)}`
        : `hexadecimal: ${hexWords(bytes, 4)}`,
    );
  }
  return lines.join("\n");
}

function barrierRows(frame: FrameInfo, areas: readonly Area[], address: number | undefined): Row[] {
  if (address === undefined) return [];
  return frame.mbarriers
    .filter(({ offset }) => offset >= address && offset < address + 16)
    .filter(({ offset }) => areas.some((area) => area.kind === "mbarrier" && area.start === offset))
    .map(({ offset, phase, pending, expected, tx }) => [
      smem(offset),
      `phase ${phase}, ${pending} of ${expected} arrivals pending, tx-count ${tx.toLocaleString("en-US")} B`,
    ]);
}

export function detailParts(
  looked: Looked,
  selected: number | undefined,
  goTo: (address: number) => void,
): HTMLElement[] {
  const { layout, frame, areas } = looked;
  const parts = findingParts(
    frame?.findings ?? [],
    ({ address }) => smem(address),
    ({ address }) => goTo(address - (address % 16)),
  );
  if (selected === undefined)
    parts.push(
      h(
        "p",
        { class: "smv-note" },
        "Press a chunk of 16 bytes, in memory or in the matrix, to see it in both.",
      ),
    );
  else parts.push(definitions(smem(selected), chunkRows(looked, selected)));
  const barriers = frame ? barrierRows(frame, areas, selected) : [];
  if (barriers.length) parts.push(definitions("mbarriers here", barriers));
  if (layout.remarks.length)
    parts.push(
      h("div", { class: "sg-heading" }, "Worth knowing"),
      h("ul", { class: "ssm-list" }, ...layout.remarks.map((text) => h("li", {}, text))),
    );
  if (frame?.inFlight.length) {
    const counted = new Map<string, number>();
    for (const { text, warp, cta } of frame.inFlight) {
      const key = `${text}, warp ${warp} of CTA ${cta}`;
      counted.set(key, (counted.get(key) ?? 0) + 1);
    }
    const items = [...counted].map(([text, count]) =>
      h("li", {}, breakable(count > 1 ? `${count} × ${text}` : text)),
    );
    parts.push(
      h("div", { class: "sg-heading" }, "Issued, not carried out yet"),
      h("ul", { class: "ssm-list" }, ...items),
    );
  }
  return parts;
}
