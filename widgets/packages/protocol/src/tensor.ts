// Tensors as they cross from Python: {dtype, shape, buffer}, row-major, little-endian.

export type DType =
  | "bool"
  | "uint8"
  | "int8"
  | "int16"
  | "int32"
  | "int64"
  | "float16"
  | "bfloat16"
  | "float32"
  | "float64";

export interface WireTensor {
  dtype: DType;
  shape: number[];
  buffer: DataView | ArrayBuffer | Uint8Array;
}

/** Plain numbers: 16-bit floats are widened to 32 bits, int64 to float64 (exact below 2^53). */
interface Decoded {
  bool: Uint8Array;
  uint8: Uint8Array;
  int8: Int8Array;
  int16: Int16Array;
  int32: Int32Array;
  int64: Float64Array;
  float16: Float32Array;
  bfloat16: Float32Array;
  float32: Float32Array;
  float64: Float64Array;
}

export type NumbersOf<D extends DType> = Decoded[D];
export type Numbers = NumbersOf<DType>;

export interface Tensor<D extends DType = DType> {
  readonly dtype: D;
  readonly shape: readonly number[];
  readonly data: NumbersOf<D>;
}

const WIDTH: Record<DType, number> = {
  bool: 1,
  uint8: 1,
  int8: 1,
  int16: 2,
  int32: 4,
  int64: 8,
  float16: 2,
  bfloat16: 2,
  float32: 4,
  float64: 8,
};

export function isWireTensor(value: unknown): value is WireTensor {
  if (typeof value !== "object" || value === null) return false;
  const { dtype, shape, buffer } = value as Partial<WireTensor>;
  return typeof dtype === "string" && dtype in WIDTH && Array.isArray(shape) && buffer !== undefined;
}

export function decodeTensor({ dtype, shape, buffer }: WireTensor): Tensor {
  const bytes = alignedBytes(buffer);
  const count = shape.reduce((product, extent) => product * extent, 1);
  const expected = count * WIDTH[dtype];
  if (bytes.byteLength !== expected)
    throw new Error(
      `A ${dtype} tensor of shape [${shape}] needs ${expected} bytes; ${bytes.byteLength} arrived.`,
    );
  return { dtype, shape, data: numbers(dtype, bytes.buffer, bytes.byteOffset, count) };
}

/** Typed arrays need an aligned offset; a message's buffers start anywhere. */
function alignedBytes(buffer: WireTensor["buffer"]): Uint8Array<ArrayBuffer> {
  const view =
    buffer instanceof ArrayBuffer
      ? new Uint8Array(buffer)
      : new Uint8Array(buffer.buffer as ArrayBuffer, buffer.byteOffset, buffer.byteLength);
  return view.byteOffset % 8 === 0 ? view : view.slice();
}

function numbers(dtype: DType, buffer: ArrayBuffer, offset: number, count: number): Numbers {
  switch (dtype) {
    case "bool":
    case "uint8":
      return new Uint8Array(buffer, offset, count);
    case "int8":
      return new Int8Array(buffer, offset, count);
    case "int16":
      return new Int16Array(buffer, offset, count);
    case "int32":
      return new Int32Array(buffer, offset, count);
    case "float32":
      return new Float32Array(buffer, offset, count);
    case "float64":
      return new Float64Array(buffer, offset, count);
    case "int64":
      return Float64Array.from(new BigInt64Array(buffer, offset, count), Number);
    case "float16":
      return Float32Array.from(new Uint16Array(buffer, offset, count), float16);
    case "bfloat16":
      return bfloat16ToFloat32(new Uint16Array(buffer, offset, count));
  }
}

/** The number that 16 bits of IEEE half precision represent. */
export function float16(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function bfloat16ToFloat32(bits: Uint16Array): Float32Array {
  const widened = new Uint32Array(bits.length);
  for (let i = 0; i < bits.length; i++) widened[i] = (bits[i] as number) << 16;
  return new Float32Array(widened.buffer);
}

/** Rows `start` to `stop` of a tensor whose first axis is sliced. */
export function sliceTensor(tensor: Tensor, start: number, stop: number): Tensor {
  const rows = tensor.shape[0] ?? 1;
  const stride = rows ? tensor.data.length / rows : 0;
  const from = Math.max(0, Math.min(start, rows));
  const to = Math.max(from, Math.min(stop, rows));
  return {
    dtype: tensor.dtype,
    shape: [to - from, ...tensor.shape.slice(1)],
    data: tensor.data.subarray(from * stride, to * stride),
  };
}
