// An element in words: its coordinate, its address and bank, or its lane and register; and who is in its way.

import { format } from "@sglab/core";
import type { Row } from "@sglab/memory/parts";
import type { Tile } from "./model";
import type { Shown } from "./protocol";

const hex = (value: number) => `0x${value.toString(16)}`;

/** "0–3, 8": lanes as ranges. */
export function ranges(numbers: readonly number[]): string {
  const parts: string[] = [];
  let from = 0;
  for (let i = 1; i <= numbers.length; i++) {
    if (i < numbers.length && numbers[i] === (numbers[i - 1] as number) + 1) continue;
    const [first, last] = [numbers[from], numbers[i - 1]];
    parts.push(first === last ? String(first) : `${first}–${last}`);
    from = i;
  }
  return parts.join(", ");
}

const holder = (tile: Tile, i: number) => `${tile.shown.placeRows > 32 ? "thread" : "lane"} ${tile.lane[i]}`;

/** Which bits of a register an element is. */
function bits(tile: Tile, i: number): string {
  if (tile.shown.parts < 2) return "";
  const width = 32 / tile.shown.parts;
  const low = (tile.part[i] as number) * width;
  return `, bits ${low}–${low + width - 1}`;
}

export function elementRows(tile: Tile, i: number): Row[] {
  const { space, elementBits, element, takenBytes } = tile.shown;
  const rows: Row[] = [["coordinate", `row ${tile.row(i)}, column ${tile.column(i)}`]];
  if (space === "registers") {
    const thread = tile.lane[i] as number;
    const warp: Row[] =
      tile.shown.placeRows > 32 ? [["warp", `${Math.floor(thread / 32)}, lane ${thread % 32}`]] : [];
    return [
      ...rows,
      ["held by", holder(tile, i)],
      ...warp,
      ["register", `${tile.register[i]}${bits(tile, i)}`],
    ];
  }
  if (space === "tmem") {
    const lane = tile.placeRow(i);
    return [
      ...rows,
      ["tensor memory", `tmem[${lane},${tile.placeColumn(i)}]`],
      ["raw address", `base + ${hex((lane << 16) | tile.placeColumn(i))}`],
      ["readable by", `warp ${Math.floor(lane / 32)} of a warpgroup, by lane ${lane % 32} with 32x32b`],
    ];
  }
  const inside = elementBits < 32 ? `, byte ${tile.byte(i) % 4} of its word` : "";
  const last = Math.floor((tile.byte(i) + Math.max(1, elementBits / 8) - 1) / 4) % 32;
  const banks = last === tile.bank(i) ? String(last) : `${tile.bank(i)}–${last}`;
  const conflicts = tile.conflicts(i);
  return [
    ...rows,
    ["index", `${format.count(tile.index(i))} (first mode fastest)`],
    ["offset", `${format.plural(tile.place[i] as number, "element")} of ${element}`],
    ["address", `base + ${hex(tile.byte(i))} (byte ${format.count(tile.byte(i))})`],
    ["bank", `${banks}${inside}`],
    ["16-byte chunk", `${Math.floor((tile.byte(i) % 128) / 16)} of line ${tile.placeRow(i)}`],
    [
      "taken by",
      `lane ${tile.lane[i]} in access ${(tile.group[i] as number) + 1}, ${takenBytes} bytes at once`,
    ],
    [
      "in its way",
      conflicts.length
        ? `▲ ${conflicts.length === 1 ? "lane" : "lanes"} ${ranges(conflicts)}: other words of its banks`
        : "no lane: no bank conflict",
    ],
    ...sharing(tile, i),
  ];
}

function sharing(tile: Tile, i: number): Row[] {
  const others = tile.at(tile.place[i] as number).length - 1;
  return others ? [["the same place", format.plural(others, "other coordinate")]] : [];
}

export function elementText(tile: Tile, i: number): string {
  return elementRows(tile, i)
    .map(([term, text]) => `${term}  ${text}`)
    .join("\n");
}

export type Label = "place" | "owner" | "bank" | "index";

export const LABELS: [Label, string][] = [
  ["place", "where it lies"],
  ["owner", "lane"],
  ["bank", "bank"],
  ["index", "index"],
];

/** What cells say of a tile when `label` is chosen: registers and tensor memory have no banks. */
export function labelIn(space: Shown["space"], label: Label): Label {
  return label === "bank" && space !== "smem" ? "owner" : label;
}

/** What stands in a cell of the tile: the first that has room. */
export function cellLabels(tile: Tile, i: number, label: Label): string[] {
  const { space, placeRows } = tile.shown;
  if (label === "index") return [String(tile.index(i))];
  if (space === "registers") {
    const lane = `${placeRows > 32 ? "t" : "L"}${tile.lane[i]}`;
    return label === "place" ? [`${lane} r${tile.register[i]}`, lane] : [lane];
  }
  if (space === "tmem")
    return [
      ...(label === "place" ? [`${tile.placeRow(i)},${tile.placeColumn(i)}`] : []),
      `lane ${tile.placeRow(i)}`,
    ];
  if (label === "owner") return [`L${tile.lane[i]}`];
  return [String(label === "bank" ? tile.bank(i) : tile.place[i])];
}

export function placeTitle(tile: Tile): string {
  const { space, placeRows } = tile.shown;
  if (space === "smem") return "In shared memory: lines of 32 banks";
  if (space === "tmem") return "In tensor memory: 128 lanes by columns";
  return placeRows > 32
    ? "In registers: threads of a warpgroup by registers"
    : "In registers: lanes by registers";
}
