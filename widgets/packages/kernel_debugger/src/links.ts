// Lines of source and PTX that belong to one place.

import type { CodeModel } from "./code_model";

export type Side = "source" | "ptx";

export class Links {
  readonly source = new Set<number>();
  readonly ptx = new Set<number>();

  constructor(private code: CodeModel) {}

  /** Of a line of PTX, or of a source file; none: nothing is linked. */
  link(place: { side: Side; line: number } | undefined, file: number): void {
    this.source.clear();
    this.ptx.clear();
    if (!place) return;
    if (place.side === "source") {
      for (const line of this.code.ptxOf({ file, line: place.line })) this.ptx.add(line);
      if (this.ptx.size) this.source.add(place.line);
      return;
    }
    const pc = this.code.pcAt(place.line);
    if (pc === undefined) return;
    this.ptx.add(place.line);
    for (const each of this.code.chain(pc)) if (each.file === file) this.source.add(each.line);
  }
}
