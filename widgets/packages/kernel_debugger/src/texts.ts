// Texts of any length, line by line; only the lines that are looked at cross.

import type { Numbers } from "@sglab/protocol";
import type { DebuggerSource } from "./protocol";

const CHUNK = 256;

export class TextLines {
  #starts: Numbers | undefined;
  #chunks = new Map<number, string[] | null>();

  constructor(
    private source: DebuggerSource,
    readonly name: string,
    private arrived: () => void,
    private failed: (error: unknown) => void,
  ) {}

  get isOpen(): boolean {
    return this.#starts !== undefined;
  }

  /** Learns where the lines begin. */
  async open(): Promise<void> {
    this.#starts ??= (await this.source.slice(`${this.name}.start`, 0, 2 ** 31 - 1)).data;
  }

  get count(): number {
    return Math.max(0, (this.#starts?.length ?? 1) - 1);
  }

  /** Line `line`, counted from 1; undefined while it is on its way. */
  line(line: number): string | undefined {
    const at = line - 1;
    const number = Math.floor(at / CHUNK);
    const chunk = this.#chunks.get(number);
    if (chunk === undefined) void this.#fetch(number);
    return chunk?.[at % CHUNK];
  }

  /** Every line: for searches. Those that could not be read are empty. */
  async all(): Promise<string[]> {
    const chunks = Math.ceil(this.count / CHUNK);
    await Promise.all(Array.from({ length: chunks }, (_, number) => this.#fetch(number)));
    const read = (at: number) => this.#chunks.get(Math.floor(at / CHUNK))?.[at % CHUNK];
    return Array.from({ length: this.count }, (_, at) => read(at) ?? "");
  }

  async #fetch(number: number): Promise<void> {
    const starts = this.#starts;
    if (!starts || this.#chunks.get(number)) return;
    const first = number * CHUNK;
    const last = Math.min(this.count, first + CHUNK);
    this.#chunks.set(number, null);
    try {
      const begin = starts[first] as number;
      const bytes = await this.source.slice(`${this.name}.text`, begin, starts[last] as number);
      const decoder = new TextDecoder();
      const lines = [];
      for (let at = first; at < last; at++) {
        const piece = bytes.data.subarray(
          (starts[at] as number) - begin,
          (starts[at + 1] as number) - begin,
        ) as Uint8Array;
        lines.push(decoder.decode(piece).replace(/[\r\n\f\v]+$/, ""));
      }
      this.#chunks.set(number, lines);
      this.arrived();
    } catch (error) {
      this.#chunks.delete(number);
      this.failed(error);
    }
  }
}
