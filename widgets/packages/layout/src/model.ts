// A tile and the places of its elements, as Python computed them; who meets whom in a bank.

import { BANKS, type BankUse, bankUse } from "@sglab/memory/banks";
import type { Shown } from "./protocol";

const LINE = 128; // bytes that all banks hold in a row

export class Tile {
  readonly size: number;
  readonly place: Int32Array;
  readonly lane: Int32Array;
  readonly register: Int32Array;
  readonly part: Int32Array;
  readonly group: Int32Array;
  readonly phase: Int32Array;
  /** Elements by place; where a layout reaches a place twice, all of them. */
  #byPlace = new Map<number, number[]>();

  constructor(
    readonly shown: Shown,
    cells: Int32Array,
  ) {
    this.size = shown.rows * shown.columns;
    const column = (i: number) => cells.subarray(i * this.size, (i + 1) * this.size);
    [this.place, this.lane, this.register, this.part, this.group, this.phase] = [0, 1, 2, 3, 4, 5].map(
      column,
    ) as [Int32Array, Int32Array, Int32Array, Int32Array, Int32Array, Int32Array];
    for (let i = 0; i < this.size; i++) {
      const place = this.place[i] as number;
      const others = this.#byPlace.get(place);
      if (others) others.push(i);
      else this.#byPlace.set(place, [i]);
    }
  }

  at(place: number): readonly number[] {
    return this.#byPlace.get(place) ?? [];
  }

  row(i: number): number {
    return Math.floor(i / this.shown.columns);
  }

  column(i: number): number {
    return i % this.shown.columns;
  }

  placeRow(i: number): number {
    return Math.floor((this.place[i] as number) / this.shown.placeColumns);
  }

  placeColumn(i: number): number {
    return (this.place[i] as number) % this.shown.placeColumns;
  }

  /** The element's first byte in shared memory. */
  byte(i: number): number {
    return Math.floor(((this.place[i] as number) * this.shown.elementBits) / 8);
  }

  bank(i: number): number {
    return Math.floor(this.byte(i) / 4) % BANKS;
  }

  /** The element's number in the layout: the first coordinate is the fastest. */
  index(i: number): number {
    return this.row(i) + this.column(i) * this.shown.rows;
  }

  /** Where each lane's part of an access begins, in bytes; -1: the lane takes no part. */
  addresses(group: number): number[] {
    const first = new Array<number>(BANKS).fill(-1);
    for (let i = 0; i < this.size; i++) {
      if (this.group[i] !== group) continue;
      const lane = this.lane[i] as number;
      const known = first[lane] as number;
      if (known < 0 || this.byte(i) < known) first[lane] = this.byte(i);
    }
    return first;
  }

  banksOf(group: number): BankUse {
    const addresses = this.addresses(group);
    const lanes = addresses.reduce((mask, address, lane) => (address < 0 ? mask : mask | (1 << lane)), 0);
    return bankUse(addresses, lanes, this.shown.takenBytes);
  }

  /** Lanes of the element's phase that want other words of the banks that its own lane uses. */
  conflicts(i: number): number[] {
    const phase = this.banksOf(this.group[i] as number).phases[this.phase[i] as number];
    const lane = this.lane[i] as number;
    const against = new Set<number>();
    for (const bank of phase?.banks ?? []) {
      if (bank.words.length < 2 || !bank.lanes.includes(lane)) continue;
      for (const other of bank.lanes) if (other !== lane) against.add(other);
    }
    return [...against].sort((a, b) => a - b);
  }
}

export function lineOf(byte: number): number {
  return Math.floor(byte / LINE);
}
