// The moments of a saved page: those around the one at which it was saved, and those at which its reader had stopped.

import { countUpTo } from "@sglab/core";
import type { Numbers, Tensor } from "@sglab/protocol";
import type { Backend } from "./backend";
import type { CodeModel } from "./code_model";
import type { Action, DebuggerSource, Look, MoveOptions, RegisterRow, State } from "./protocol";

interface Row extends State {
  /** CTA, warp, group, number of a set of registers. */
  sets: [number, number, number, number][];
}

interface Content {
  present: number;
  registers: RegisterRow[];
  moments: Row[];
}

const EVERYTHING = 2 ** 31 - 1;
const REFUSAL =
  "This is a saved page, without Python: it steps between the moments it holds. What saved it, a notebook or sglab step, has the rest.";

/** Byte strings one after the other. */
interface Strings {
  bytes: Numbers;
  start: Numbers;
}

export class SavedMoments implements Backend {
  readonly live = false;
  readonly positions: number[];
  #at: number;

  private constructor(
    private code: CodeModel,
    private content: Content,
    private values: Strings,
    private sets: Strings,
  ) {
    this.positions = content.moments.map(({ position }) => position);
    this.#at = Math.max(0, this.positions.indexOf(content.present));
  }

  static async read(source: DebuggerSource, code: CodeModel): Promise<SavedMoments> {
    const names = ["moments", "values.bytes", "values.start", "sets.bytes", "sets.start"] as const;
    const read = await Promise.all(names.map((name) => source.slice(name, 0, EVERYTHING)));
    const [moments, ...rest] = read.map(({ data }) => data) as [Numbers, Numbers, Numbers, Numbers, Numbers];
    const content = JSON.parse(new TextDecoder().decode(moments as Uint8Array)) as Content;
    return new SavedMoments(
      code,
      content,
      { bytes: rest[0], start: rest[1] },
      { bytes: rest[2], start: rest[3] },
    );
  }

  async look(look: Look): Promise<State> {
    const row = this.content.moments[this.#at] as Row;
    const named = row.warps.some(({ cta, warp }) => cta === look.cta && warp === look.warp);
    const focus = named ? ([look.cta, look.warp, look.group ?? 0] as [number, number, number]) : row.focus;
    return { ...this.content, ...row, focus, registers: this.#registers(row, focus) };
  }

  async go(action: Action, options: MoveOptions, look: Look): Promise<State> {
    this.#at = this.#target(action, options, await this.look(look));
    return this.look(look);
  }

  goOn(look: Look): Promise<State> {
    return this.look(look);
  }

  halt(look: Look): Promise<State> {
    return this.look(look);
  }

  ask(): Promise<State> {
    return Promise.reject(new Error(REFUSAL));
  }

  #target(action: Action, options: MoveOptions, now: State): number {
    const last = this.positions.length - 1;
    if (action === "seek") return this.#nearest(options.position as number);
    if (action === "end" || action === "run") return last;
    if (action === "run_back") return 0;
    const direction = action.endsWith("back") ? -1 : 1;
    const found = (wanted: (row: Row, before: Row) => boolean) => {
      for (let at = this.#at + direction; at >= 0 && at <= last; at += direction)
        if (wanted(this.content.moments[at] as Row, this.content.moments[at - 1] as Row)) return at;
      return direction > 0 ? last : 0;
    };
    const [cta, warp] = now.focus ?? [-1, -1];
    const ofWarp = (row: Row) => row.last?.[0] === cta && row.last[1] === warp;
    const line = (row: Row | undefined) => this.#line(row, cta, warp);
    switch (action) {
      case "warp":
      case "warp_back":
        return found(ofWarp);
      case "line":
      case "line_back":
        return found((row, before) => before !== undefined && line(row) !== line(before));
      case "event":
      case "event_back":
        return found((row) => row.last !== null && this.code.isEvent(row.last[2]));
      case "warp_event":
      case "warp_event_back":
        return found((row) => row.last !== null && ofWarp(row) && this.code.isEvent(row.last[2]));
      default:
        return Math.max(0, Math.min(last, this.#at + direction));
    }
  }

  #line(row: Row | undefined, cta: number, warp: number): string {
    const found = row?.warps.find((each) => each.cta === cta && each.warp === warp);
    const pc = found?.groups[0]?.[0];
    return pc === undefined ? "" : this.code.placeName(pc);
  }

  #nearest(position: number): number {
    const above = Math.min(this.positions.length - 1, countUpTo(this.positions, position));
    const below = Math.max(0, above - 1);
    const distance = (at: number) => Math.abs((this.positions[at] as number) - position);
    return distance(below) <= distance(above) ? below : above;
  }

  #registers(row: Row, focus: State["focus"]): State["registers"] {
    const set = row.sets.find(
      ([cta, warp, group]) => cta === focus?.[0] && warp === focus[1] && group === focus[2],
    );
    const packed = piece(this.sets, set?.[3]);
    const pairs = new Int32Array(packed.slice().buffer);
    const rows: RegisterRow[] = [];
    const parts: Uint8Array[] = [];
    for (let at = 0; at < pairs.length; at += 2) {
      rows.push(this.content.registers[pairs[at] as number] as RegisterRow);
      parts.push(piece(this.values, pairs[at + 1]));
    }
    const data = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let end = 0;
    for (const part of parts) {
      data.set(part, end);
      end += part.length;
    }
    return { rows, bytes: { dtype: "uint8", shape: [data.length], data } satisfies Tensor };
  }
}

function piece({ bytes, start }: Strings, number: number | undefined): Uint8Array {
  if (number === undefined) return new Uint8Array(0);
  return bytes.subarray(start[number] as number, start[number + 1] as number) as Uint8Array;
}
