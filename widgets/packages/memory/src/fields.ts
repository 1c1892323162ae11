// Bit fields of a descriptor: read, written and described one by one.

export interface Field {
  name: string;
  low: number;
  width: number;
  /** What the raw value means. */
  meaning: (raw: number) => string;
  /** Values that have a name; the editor offers them. */
  choices?: readonly (readonly [raw: number, label: string])[];
  /** Bytes per unit where the field holds bytes: the editor shows and takes bytes. */
  unit?: number;
}

export function readField(bits: bigint, { low, width }: Field): number {
  return Number((bits >> BigInt(low)) & ((1n << BigInt(width)) - 1n));
}

/** Throws where the value does not fit. */
export function writeField(bits: bigint, field: Field, raw: number): bigint {
  const { low, width, name, unit = 1 } = field;
  const most = 2 ** width - 1;
  if (!Number.isInteger(raw) || raw < 0 || raw > most)
    throw new Error(
      unit > 1
        ? `${name} must be a multiple of ${unit} from 0 to ${most * unit} bytes.`
        : `${name} has ${width} bits: it takes 0 to ${most}.`,
    );
  const mask = ((1n << BigInt(width)) - 1n) << BigInt(low);
  return (bits & ~mask) | (BigInt(raw) << BigInt(low));
}

/** Reads "0x…" (underscores and spaces allowed) of at most `width` bits. Throws with a sentence. */
export function parseHex(text: string, width: number): bigint {
  const digits = text.trim().replace(/^0x/i, "").replace(/[_\s]/g, "");
  if (!/^[0-9a-f]+$/i.test(digits)) throw new Error(`“${text}” is not a hexadecimal number.`);
  const value = BigInt(`0x${digits}`);
  if (value >> BigInt(width)) throw new Error(`${text} has more than ${width} bits.`);
  return value;
}

export function hex(bits: bigint | number, digits = 0): string {
  return `0x${bits.toString(16).padStart(digits, "0")}`;
}
