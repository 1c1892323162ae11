// A tile as pairs of a place in memory and a place in the matrix, 16 bytes at a time.

import {
  decodeSmemDescriptor,
  type Flavour,
  type Major,
  type OperandChunk,
  type OperandShape,
  operandChunks,
  smemDescriptorRemarks,
} from "@sglab/memory/smem_descriptor";
import { ROW_SWIZZLES, type Swizzle, swizzleAddress } from "@sglab/memory/swizzle";
import { boxChunks, extent, type MapFields, mapProblems, swizzleOf } from "@sglab/memory/tensor_map";

export interface Piece {
  /** Its turn: pieces are read in this order. */
  order: number;
  line: number;
  chunk: number;
  address: number;
  /** Elements that exist; fewer than `elements` at a tensor's edge. */
  inside: number;
  /** Offset in the tensor's bytes, of boxes. */
  global?: number;
}

export interface Layout {
  swizzle: Swizzle;
  /** Where the swizzle's pattern begins: 0 of the hardware's, which permute addresses. */
  origin: number;
  lines: number;
  chunks: number;
  /** The lines of 128 bytes that it touches: addresses, multiples of 128. */
  start: number;
  end: number;
  pieces: Piece[];
  byAddress: Map<number, Piece>;
  element: string;
  /** Of bytes of several kinds: what lies at an address, "" where it is not known. */
  elementOf?: (address: number) => string;
  elementBits: number;
  /** What runs down and across: rows and k, k and n, … */
  down: string;
  across: string;
  problems: string[];
  remarks: string[];
}

const LINE = 128;
const NOTHING: Omit<Layout, "problems"> = {
  swizzle: "none",
  origin: 0,
  lines: 0,
  chunks: 0,
  start: 0,
  end: 0,
  pieces: [],
  byAddress: new Map(),
  element: "",
  elementBits: 16,
  down: "row",
  across: "k",
  remarks: [],
};

/** What lies at an address, "" where it is not known. */
export function elementHere({ element, elementOf }: Layout, address: number): string {
  return elementOf ? elementOf(address) : element;
}

export function refused(problems: string[]): Layout {
  return { ...NOTHING, problems };
}

function finish(layout: Omit<Layout, "start" | "end" | "byAddress" | "lines" | "chunks">): Layout {
  let [lines, chunks, start, end] = [0, 0, Number.POSITIVE_INFINITY, 0];
  for (const piece of layout.pieces) {
    lines = Math.max(lines, piece.line + 1);
    chunks = Math.max(chunks, piece.chunk + 1);
    start = Math.min(start, piece.address);
    end = Math.max(end, piece.address + 16);
  }
  return {
    ...layout,
    lines,
    chunks,
    start: Math.floor(start / LINE) * LINE,
    end: Math.ceil(end / LINE) * LINE,
    byAddress: new Map(layout.pieces.map((piece) => [piece.address, piece])),
  };
}

export interface DescriptorQuestion extends OperandShape {
  bits64: bigint;
  flavour: Flavour;
  element: string;
  /** "A": rows are M; "B": rows are N. */
  operand: "A" | "B" | "";
}

export function layoutOfDescriptor(question: DescriptorQuestion, windowBytes: number): Layout {
  try {
    const descriptor = decodeSmemDescriptor(question.bits64, question.flavour);
    const { rows, k, bits, major } = question;
    if (rows < 1 || k < 1) throw new Error("The operand's shape must be at least 1 × 1.");
    const pieces = operandChunks(descriptor, question).map((each, order) => ({
      ...each,
      order,
      inside: 128 / bits,
    }));
    const last = Math.max(...pieces.map((piece) => piece.address));
    const side = question.operand === "A" ? "m" : "n";
    const remarks = [...smemDescriptorRemarks(descriptor, major), ...sharedBytes(pieces, side, major)];
    if (last + 16 > windowBytes)
      remarks.push(
        `The operand reaches smem+0x${(last + 15).toString(16)}, past the CTA's 0x${windowBytes.toString(16)}: ` +
          "the MMA would fault.",
      );
    return finish({
      swizzle: descriptor.swizzle,
      origin: 0,
      pieces,
      element: question.element,
      elementBits: bits,
      down: major === "K" ? side : "k",
      across: major === "K" ? "k" : side,
      problems: [],
      remarks,
    });
  } catch (error) {
    return refused([(error as Error).message]);
  }
}

/** Says so where two chunks of an operand are the same bytes: an offset is too small. */
function sharedBytes(pieces: readonly OperandChunk[], side: string, major: Major): string[] {
  const first = new Map<number, OperandChunk>();
  const again = pieces.filter((piece) => {
    const known = first.has(piece.address);
    if (!known) first.set(piece.address, piece);
    return known;
  });
  const [one] = again;
  const other = one && first.get(one.address);
  if (!one || !other) return [];
  const name = ({ line, chunk }: OperandChunk) => `${major === "K" ? side : "k"}${line}·c${chunk}`;
  return [
    `${again.length} of ${pieces.length} chunks are bytes that the operand has read before: ${name(one)} at ` +
      `smem+0x${one.address.toString(16)} is ${name(other)}, too. An offset is too small.`,
  ];
}

/** Rows that follow each other, their chunks permuted: by address, or by the kernel from the first row on. */
export function layoutOfRows(
  start: number,
  bytes: number,
  pitch: number,
  element: string,
  elementBits: number,
  swizzle: Swizzle,
): Layout {
  const origin = (ROW_SWIZZLES as readonly Swizzle[]).includes(swizzle) ? start : 0;
  const pieces = Array.from({ length: Math.ceil(bytes / 16) }, (_, order) => ({
    order,
    line: Math.floor((order * 16) / pitch),
    chunk: ((order * 16) % pitch) / 16,
    address: origin + swizzleAddress(swizzle, start - origin + order * 16),
    inside: 128 / elementBits,
  }));
  return finish({
    swizzle,
    origin,
    pieces,
    element,
    elementBits,
    down: "row",
    across: "column",
    problems: [],
    remarks: [],
  });
}

/** The bytes of one element of the tile: of shared memory, and the chunk of 16 that they are in. */
export interface Element {
  row: number;
  column: number;
  address: number;
  chunk: number;
}

/** Where an element is; undefined outside the tile. */
export function elementAt(layout: Layout, row: number, column: number): Element | undefined {
  const per = 128 / layout.elementBits;
  const piece = layout.pieces.find(({ line, chunk }) => line === row && chunk === Math.floor(column / per));
  if (!piece) return undefined;
  // Some swizzles move halves of a chunk, too; an exclusive-or undoes itself.
  const linear = swizzleAddress(layout.swizzle, piece.address - layout.origin) & ~15;
  const inside = Math.floor(((column % per) * layout.elementBits) / 8);
  const address = layout.origin + swizzleAddress(layout.swizzle, linear + inside);
  return { row, column, address, chunk: address - (address % 16) };
}

export interface MapQuestion extends MapFields {
  element: string;
  coordinates: number[];
  base: number;
}

export function layoutOfMap(question: MapQuestion): Layout {
  const problems = mapProblems(question);
  if (question.base % 128)
    problems.push(`The shared address 0x${question.base.toString(16)} must be a multiple of 128.`);
  if (problems.length) return refused(problems);
  const pieces = boxChunks(question, question.coordinates, question.base).map(
    ({ row, chunk, address, inside, global }, order) => ({
      order,
      line: row,
      chunk,
      address,
      inside,
      ...(global === undefined ? {} : { global }),
    }),
  );
  const outside = pieces.filter((piece) => piece.inside < 128 / question.elementBits).length;
  const remarks = outside
    ? [`${outside} of ${pieces.length} pieces of 16 bytes reach outside the tensor: they are filled in.`]
    : [];
  return finish({
    swizzle: swizzleOf(question.swizzle),
    origin: 0,
    pieces,
    element: question.element,
    elementBits: question.elementBits,
    down: "row",
    across: "column",
    problems: [],
    remarks,
  });
}

/** The rows of a box as coordinates of its outer dimensions. */
export function boxRow(question: MapQuestion, line: number): number[] {
  const out = [];
  let rest = line;
  for (let i = 1; i < question.dims.length; i++) {
    const size = extent(question, i);
    out.push((question.coordinates[i] as number) + (rest % size) * (question.elementStrides[i] as number));
    rest = Math.floor(rest / size);
  }
  return out;
}
