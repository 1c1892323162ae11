// The details of a copy: its tensor map, its coordinates, the page that they name; and of a page: the copies that read it.

import { definitions, format, h } from "@sglab/core";
import type { Launch } from "@sglab/launch/data";
import { warpAndRole } from "@sglab/launch/names";
import { linkTo, part } from "@sglab/launch/parts";
import type { Selection } from "@sglab/protocol";
import type { Shown } from "./shown";

const LISTED = 40;
const COORDINATES = ["x0", "x1", "x2", "x3", "x4"] as const;
const OFFSET = 0xffffff; // of a shared::cluster address; above it is the CTA's rank

/** What an event's copy brings from where. */
export function copyPart({ launch, pages }: Shown, event: number): HTMLElement[] {
  const copy = pages.copyOf(event);
  const read = pages.readOf(event);
  if (copy === undefined) return [];
  const rows = copyRows(launch, copy);
  if (read !== undefined) rows.push(["reads", pages.textOf(read)]);
  return [part("Copy"), definitions(rows)];
}

function copyRows({ copies, meta }: Launch, copy: number): [string, string][] {
  const rows: [string, string][] = [["kind", meta.copyKinds[copies.kind[copy] as number] as string]];
  const map = meta.maps[copies.map[copy] as number];
  if (map) {
    const at = COORDINATES.slice(0, map.dims.length).map((name) => copies[name][copy] as number);
    rows.push(["coordinates", at.join(", ")]);
    rows.push(["box", `${map.box.join(" × ")} ${map.element}`]);
    rows.push(["of the tensor", map.dims.join(" × ")]);
  }
  const shared = copies.shared[copy] as number;
  const place = format.address("smem", shared & OFFSET);
  const rank = shared >>> 24;
  rows.push(["to", `${place}${meta.ctas.length > 1 ? ` of CTA ${meta.ctas[rank]}` : ""}`]);
  rows.push(["bytes", format.bytes(copies.bytes[copy] as number)]);
  return rows;
}

/** The selected page: who reads it here, each instruction a link. Empty where none does. */
export function pageDetails(
  { launch, pages }: Shown,
  selection: Selection,
  jumps: { numbered: (event: number) => void },
): HTMLElement[] {
  const { reads, events, places } = launch;
  const mine = pages.readsOf(selection);
  const { page } = selection;
  if (page === undefined || !launch.pageCtas.size) return [];
  const title = h("div", { class: "sg-heading" }, `Page ${format.count(page)}`);
  if (!mine.length) {
    const ctas = pages.ctasOf({ page });
    const whom = ctas.length ? `Read by CTA ${ctas.join(", ")}, not by what is selected here.` : "";
    return [title, h("p", { class: "sg-note" }, whom || "No instruction of this launch reads it.")];
  }
  const request = reads.request[mine[0] as number] as number;
  const byWarp = new Map<number, number[]>();
  for (const read of mine) {
    const row = events.row[places.indexOf(reads.event[read] as number)] as number;
    byWarp.set(row, [...(byWarp.get(row) ?? []), read]);
  }
  const entry = (read: number) => {
    const event = reads.event[read] as number;
    const link = linkTo(describe(launch, pages.copyOf(event)), () => jumps.numbered(event));
    return h("li", {}, link, ` · ${pages.tokensOf(read)}`);
  };
  const lists = [...byWarp].flatMap(([row, all]) => [
    part(warpAndRole(launch, row)),
    h("ul", { class: "sg-list swr-reads" }, ...all.slice(0, LISTED).map(entry)),
    ...(all.length > LISTED ? [h("p", { class: "sg-note" }, `and ${all.length - LISTED} more`)] : []),
  ]);
  const whose = request >= 0 ? `Of request r${request}. ` : "";
  const count = format.plural(mine.length, "instruction");
  const them = `${count} read it here, outlined in the timeline; of a copy, its coordinates:`;
  return [title, h("p", { class: "sg-note" }, whose + them), ...lists];
}

/** "(64, 0, 7)"; a bulk copy has no coordinates. */
function describe({ copies, meta }: Launch, copy: number | undefined): string {
  const map = copy === undefined ? undefined : meta.maps[copies.map[copy] as number];
  if (copy === undefined || !map) return "bulk copy";
  return `(${COORDINATES.slice(0, map.dims.length)
    .map((name) => copies[name][copy])
    .join(", ")})`;
}
