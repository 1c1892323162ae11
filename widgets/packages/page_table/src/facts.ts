// What the details pane says of the selected request, page and slot.

import { format, h } from "@sglab/core";
import type { Page, Request } from "./model";
import { headingOf } from "./names";
import { placeOf } from "./places";
import type { Shared } from "./shared";
import { pageStatus, writerOf } from "./words";

const { bytes, count, plural } = format;

/** Name, value, and what hovering says about it. */
export type Row = [string, string, string?];

export function table(rows: Row[]): HTMLElement {
  const list = h("div", { class: "pt-facts", role: "list" });
  for (const [name, value, title] of rows)
    list.append(h("div", { role: "listitem", title }, h("span", {}, name), h("span", {}, value)));
  return list;
}

export function requestParts(shared: Shared, request: Request): Node[] {
  const { page_size: size, slot_bytes } = shared.model.pool;
  const last = request.seqLen - (request.pages - 1) * size;
  const rows: Row[] = [
    ["length", plural(request.seqLen, "token")],
    ["pages", count(request.pages)],
    ["row of req_to_token", String(request.row)],
    ["KV in the pool", bytes(request.seqLen * slot_bytes)],
  ];
  if (size > 1) rows.push(["last page", `${last} of ${plural(size, "slot")} used`]);
  if (request.cachedTokens) rows.push(["owned by the radix tree", plural(request.cachedTokens, "token")]);
  return [h("div", { class: "sg-heading" }, headingOf(request.name)), table(rows)];
}

export function pageParts(shared: Shared, id: number, page: Page): Node[] {
  const { model, selected } = shared;
  const title = selected.page === undefined ? `Page ${count(id)}, just read` : `Page ${count(id)}`;
  return [
    h("div", { class: "sg-heading" }, title),
    h("p", { class: "pt-status" }, pageStatus(model, id, page)),
    ...(selected.page === undefined ? [] : entryParts(shared)),
    ...(selected.slot === undefined ? [] : slotParts(shared, selected.slot, page)),
  ];
}

function slotParts(shared: Shared, slot: number, page: Page): Node[] {
  const { page_size: size } = shared.model.pool;
  const { request: index = page.owner } = shared.selected;
  // who selects a slot elsewhere may not know which token it holds
  const held = slot % size < page.used ? page.number * size + (slot % size) : undefined;
  const { token = held } = shared.selected;
  const name = shared.model.requests[index]?.name;
  const rows: Row[] = [
    ["page × page size + row", `${count(Math.floor(slot / size))} × ${size} + ${slot % size}`],
    ["holds", name && token !== undefined ? `token ${count(token)} of ${name}` : "no token"],
  ];
  return [h("div", { class: "sg-heading" }, `Slot ${count(slot)}`), table(rows)];
}

/** The entries of the built array that represent the selection, who writes them, and a way to that step. */
function entryParts(shared: Shared): Node[] {
  const { model, selected, transport } = shared;
  const facts = model.run.arrays.find(({ name }) => name === model.run.output);
  const place = facts && placeOf(model, facts.name, selected);
  if (!facts || !place) return [];
  const writer = writerOf(model, facts, place.row, place.last);
  const columns = place.first === place.last ? place.last : `${place.first} … ${place.last}`;
  const entry = `${facts.name}[${facts.shape.length === 2 ? `${place.row}, ` : ""}${columns}]`;
  const go = h("button", { type: "button", class: "sg-button" }, `Go to step ${count(writer?.step ?? 0)}`);
  go.addEventListener("click", () => {
    go.closest<HTMLElement>(".sg-widget")?.focus({ preventScroll: true }); // the button is rebuilt with the step
    transport.goTo(writer?.step ?? 0);
  });
  const which = place.first === place.last ? "" : "the last one: ";
  return [
    h("p", { class: "pt-status" }, h("code", {}, entry), writer ? ` · ${which}${writer.sentence}. ` : ""),
    ...(writer ? [go] : []),
  ];
}
