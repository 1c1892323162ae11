// Which instruction is where: PTX lines, source lines, and the calls that were inlined in between.

import type { Numbers } from "@sglab/protocol";
import type { CodeInfo, DebuggerSource } from "./protocol";

export interface SourcePlace {
  file: number;
  line: number;
}

const EVERYTHING = 2 ** 31 - 1;

export class CodeModel {
  #pcsOfPtx = new Map<number, number[]>();
  #ptxOfSource = new Map<number, Map<number, number[]>>();

  private constructor(
    readonly info: CodeInfo,
    private ptxLines: Numbers,
    private kinds: Numbers,
    private chainOf: Numbers,
    private starts: Numbers,
    private places: Numbers,
  ) {
    this.#link();
  }

  /** Whether there is any source beside the PTX. */
  get hasSource(): boolean {
    return this.info.files.some(({ available }) => available);
  }

  static async read(source: DebuggerSource): Promise<CodeModel> {
    const names = ["code.ptx_line", "code.kind", "code.chain", "chain.start", "chain.place"] as const;
    const read = await Promise.all(names.map((name) => source.slice(name, 0, EVERYTHING)));
    const [lines, kinds, chains, starts, places] = read.map(({ data }) => data) as [
      Numbers,
      Numbers,
      Numbers,
      Numbers,
      Numbers,
    ];
    return new CodeModel(source.get("code"), lines, kinds, chains, starts, places);
  }

  #link(): void {
    for (let pc = 0; pc < this.ptxLines.length; pc++) {
      const ptx = this.ptxLines[pc] as number;
      if (ptx === 0) continue; // added by the decoder: it is nowhere
      push(this.#pcsOfPtx, ptx, pc);
      for (const { file, line } of this.chain(pc)) {
        const lines = this.#ptxOfSource.get(file) ?? new Map<number, number[]>();
        this.#ptxOfSource.set(file, lines);
        const known = lines.get(line);
        if (known?.at(-1) !== ptx) push(lines, line, ptx);
      }
    }
  }

  ptxLine(pc: number): number {
    return this.ptxLines[pc] ?? 0;
  }

  kind(pc: number): string {
    return this.info.kinds[this.kinds[pc] as number] ?? "";
  }

  isEvent(pc: number): boolean {
    return this.info.events.includes(this.kind(pc));
  }

  /** Its source line, then the lines at which the function around it was inlined, innermost first. */
  chain(pc: number): SourcePlace[] {
    const chain = this.chainOf[pc] ?? 0;
    const [begin, end] = [this.starts[chain] as number, this.starts[chain + 1] as number];
    const found: SourcePlace[] = [];
    for (let at = begin; at < end; at++) {
      const line = this.places[2 * at + 1] as number;
      if (line > 0) found.push({ file: this.places[2 * at] as number, line }); // 0: the compiler's own
    }
    return found;
  }

  /** The instruction on a PTX line, if there is one. */
  pcAt(ptxLine: number): number | undefined {
    return this.#pcsOfPtx.get(ptxLine)?.[0];
  }

  /** PTX lines of a source line, ascending; those of functions inlined there included. */
  ptxOf({ file, line }: SourcePlace): number[] {
    return this.#ptxOfSource.get(file)?.get(line) ?? [];
  }

  hasCode(file: number, line: number): boolean {
    return this.#ptxOfSource.get(file)?.has(line) ?? false;
  }

  /** "mla_decode.cu:448", of a library's code the line that called it; or the line of PTX. */
  placeName(pc: number): string {
    const place = this.#ownPlace(pc);
    return place ? `${this.fileName(place.file)}:${place.line}` : `PTX line ${this.ptxLine(pc)}`;
  }

  /** The same where room is short: "line 448" of the kernel's main file. */
  shortPlaceName(pc: number): string {
    const place = this.#ownPlace(pc);
    return place?.file === 0 ? `line ${place.line}` : this.placeName(pc);
  }

  #ownPlace(pc: number): SourcePlace | undefined {
    const chain = this.chain(pc);
    return chain.find(({ file }) => !this.info.files[file]?.library) ?? chain[0];
  }

  fileName(file: number): string {
    return this.info.files[file]?.name ?? "?";
  }
}

function push(lists: Map<number, number[]>, key: number, value: number): void {
  const list = lists.get(key);
  if (list) list.push(value);
  else lists.set(key, [value]);
}
