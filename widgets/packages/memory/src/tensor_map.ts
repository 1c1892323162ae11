// A tiled tensor map: which bytes of global memory a box at some coordinates takes, and where in shared memory they go.
// Written after the emulator's async/{tensor_map,box_rows,box_copy}.cpp; a test compares the two on random maps.

import { SWIZZLES, type Swizzle, swizzleAddress, swizzleSpan } from "./swizzle";

export interface MapFields {
  dims: number[];
  /** Bytes, of dimensions 1 and up. */
  strides: number[];
  box: number[];
  elementStrides: number[];
  elementBits: number;
  swizzle: number;
}

/** A 16-byte piece of the box: where it goes, and what it holds. */
export interface BoxChunk {
  /** Offset from the box's first byte in shared memory, unswizzled. */
  linear: number;
  address: number;
  row: number;
  chunk: number;
  /** Offset in the tensor, in bytes; undefined where the whole piece is out of bounds. */
  global: number | undefined;
  /** Elements of the piece inside the tensor, of `elements`. */
  inside: number;
  elements: number;
}

export function swizzleOf(index: number): Swizzle {
  return SWIZZLES[index] ?? "none";
}

/** How many elements a box has along a dimension: every n-th of boxDim. The stride of dimension 0 is ignored. */
export function extent(map: MapFields, dimension: number): number {
  if (dimension === 0) return map.box[0] as number;
  return Math.ceil((map.box[dimension] as number) / (map.elementStrides[dimension] as number));
}

/** What cuTensorMapEncodeTiled refuses about these fields, by name; empty where all is well. */
export function mapProblems(map: MapFields): string[] {
  const problems: string[] = [];
  const rank = map.dims.length;
  const span = swizzleSpan(swizzleOf(map.swizzle));
  for (let i = 0; i < rank; i++) {
    const [dim, box, step] = [map.dims[i], map.box[i], map.elementStrides[i]] as [number, number, number];
    if (!(dim >= 1 && dim <= 2 ** 32)) problems.push(`globalDim[${i}] = ${dim}; expected 1 to 2^32.`);
    if (!(box >= 1 && box <= 256)) problems.push(`boxDim[${i}] = ${box}; expected 1 to 256.`);
    if (!(step >= 1 && step <= 8)) problems.push(`elementStrides[${i}] = ${step}; expected 1 to 8.`);
    const stride = map.strides[i - 1];
    if (i > 0 && (stride === undefined || stride % 16 || stride >= 2 ** 40))
      problems.push(`globalStrides[${i - 1}] = ${stride} bytes; expected a multiple of 16 below 2^40.`);
  }
  const inner = ((map.box[0] as number) * map.elementBits) / 8;
  if (inner % 16) problems.push(`boxDim[0] spans ${inner} bytes; expected a multiple of 16.`);
  if (map.swizzle && inner > span)
    problems.push(`boxDim[0] spans ${inner} bytes; this swizzle allows ${span}.`);
  return problems;
}

export function boxBytes(map: MapFields): number {
  const elements = map.dims.reduce((product, _, i) => product * extent(map, i), 1);
  return (elements * map.elementBits) / 8;
}

/** The box's 16-byte pieces in the order of shared memory; `base` is where the box begins there. */
export function boxChunks(map: MapFields, coordinates: readonly number[], base: number): BoxChunk[] {
  const rank = map.dims.length;
  const rowBytes = (extent(map, 0) * map.elementBits) / 8;
  const rows = boxBytes(map) / rowBytes;
  const perChunk = 128 / map.elementBits;
  const swizzle = swizzleOf(map.swizzle);
  // A narrow box under a wider swizzle keeps its rows packed: the pattern is one of addresses.
  const chunks: BoxChunk[] = [];
  for (let row = 0; row < rows; row++) {
    const { offset, inside } = rowPlace(map, coordinates, row, rank);
    for (let chunk = 0; chunk * 16 < rowBytes; chunk++) {
      const linear = row * rowBytes + chunk * 16;
      const columns = Array.from(
        { length: perChunk },
        (_, i) => (coordinates[0] as number) + chunk * perChunk + i,
      );
      const valid = inside ? columns.filter((at) => at >= 0 && at < (map.dims[0] as number)) : [];
      chunks.push({
        linear,
        address: swizzleAddress(swizzle, base + linear),
        row,
        chunk,
        global: valid.length ? offset + ((valid[0] as number) * map.elementBits) / 8 : undefined,
        inside: valid.length,
        elements: perChunk,
      });
    }
  }
  return chunks;
}

function rowPlace(
  map: MapFields,
  coordinates: readonly number[],
  row: number,
  rank: number,
): { offset: number; inside: boolean } {
  let rest = row;
  let offset = 0;
  let inside = true;
  for (let i = 1; i < rank; i++) {
    const size = extent(map, i);
    const at = (coordinates[i] as number) + (rest % size) * (map.elementStrides[i] as number);
    rest = Math.floor(rest / size);
    if (at < 0 || at >= (map.dims[i] as number)) inside = false;
    offset += at * (map.strides[i - 1] as number);
  }
  return { offset, inside };
}
