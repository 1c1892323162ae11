// A tensor seen through the rows that are on screen: chunks are fetched as they are first looked at.

import type { Numbers, SourceOf, Tensor } from "@sglab/protocol";

/** A source that has such tensors. */
type Sliced<Name extends string> = Pick<
  SourceOf<{ revision: number }, unknown, unknown, Record<Name, Tensor>>,
  "get" | "slice"
>;

interface Chunk {
  tensor: Tensor | undefined;
  /** The revision it was requested at; an older one is shown until the new one is there. */
  revision: number;
}

export class TensorWindow<Name extends string = string> {
  #chunks = new Map<number, Chunk>();

  /**
   * @param rows rows per chunk: one screenful or so
   * @param arrived called when rows that were looked at have come
   */
  constructor(
    private source: Sliced<Name>,
    readonly name: Name,
    private rows: number,
    private arrived: () => void,
    private failed: (error: unknown) => void,
  ) {}

  /** Row `row`, or undefined while it is on its way. */
  row(row: number): Numbers | undefined {
    const tensor = this.#chunk(Math.floor(row / this.rows));
    const count = tensor?.shape[0] ?? 0;
    if (!tensor || count === 0) return undefined;
    const stride = tensor.data.length / count;
    const at = (row % this.rows) * stride;
    return at < tensor.data.length ? tensor.data.subarray(at, at + stride) : undefined;
  }

  /** Asks again for the rows that the last revision showed, so that they are there when this one is drawn. */
  follow(): void {
    const revision = this.source.get("revision");
    const shown = Math.max(-1, ...[...this.#chunks.values()].map((chunk) => chunk.revision));
    if (shown === revision) return;
    for (const [number, chunk] of [...this.#chunks]) if (chunk.revision === shown) this.#chunk(number);
  }

  value(row: number, column = 0): number | undefined {
    const numbers = this.row(row);
    return numbers?.[column];
  }

  #chunk(number: number): Tensor | undefined {
    const revision = this.source.get("revision");
    const known = this.#chunks.get(number);
    if (known?.revision === revision) return known.tensor;
    const chunk: Chunk = { tensor: known?.tensor, revision };
    this.#chunks.set(number, chunk);
    this.source.slice(this.name, number * this.rows, (number + 1) * this.rows).then(
      (tensor) => {
        if (this.#chunks.get(number) !== chunk) return;
        chunk.tensor = tensor;
        this.arrived();
      },
      (error) => this.failed(error),
    );
    return chunk.tensor;
  }
}
