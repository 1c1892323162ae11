// JSON lines that Python only ever adds to: each is read and parsed once.

import type { LinesSource } from "./protocol";

export class Lines<Line> {
  readonly all: Line[] = [];
  #read = 0;
  #reading: Promise<void> = Promise.resolve();

  constructor(
    private source: Pick<LinesSource, "get" | "slice">,
    private added: (line: Line, index: number) => void = () => {},
  ) {}

  /** Reads what has been added since; calls follow each other. Resolves to whether there was anything new. */
  read(): Promise<boolean> {
    const next = this.#reading.then(() => this.#more());
    this.#reading = next.then(
      () => {},
      () => {},
    );
    return next;
  }

  async #more(): Promise<boolean> {
    const stop = this.source.get("size");
    if (stop <= this.#read) return false;
    const { data } = await this.source.slice("lines", this.#read, stop);
    this.#read += data.length;
    const text = new TextDecoder().decode(new Uint8Array(data as Uint8Array));
    for (const each of text.split("\n")) {
      if (!each) continue;
      const line = JSON.parse(each) as Line;
      this.all.push(line);
      this.added(line, this.all.length - 1);
    }
    return true;
  }
}
