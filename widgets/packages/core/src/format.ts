// Numbers as people read them.

const grouped = new Intl.NumberFormat("en-US");

/** 14823 → "14,823". */
export function count(value: number): string {
  return grouped.format(value);
}

/** "1 page", "3 pages". */
export function plural(value: number, noun: string, nouns = `${noun}s`): string {
  return `${count(value)} ${value === 1 ? noun : nouns}`;
}

/** "0", "0 and 1", "0, 1 and 3". */
export function listed(each: readonly (string | number)[]): string {
  const all = each.map(String);
  return [all.slice(0, -1).join(", "), ...all.slice(-1)].filter((part) => part !== "").join(" and ");
}

/** Bytes in powers of two: "1.5 KiB". */
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let scaled = value;
  let unit = 0;
  while (Math.abs(scaled) >= 1024 && unit < units.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || scaled >= 100 ? 0 : 1;
  return `${scaled.toFixed(digits)} ${units[unit]}`;
}

/** A share as a percentage: "12 %", "1.5 %"; what is not all of it is not rounded to 100. */
export function percent(share: number): string {
  const value = share * 100;
  if (value >= 99.5 && value < 99.995) return `${Math.min(value, 99.9).toFixed(1)} %`;
  return `${value >= 10 || value === 0 ? value.toFixed(0) : value.toFixed(1)} %`;
}

/** A duration in nanoseconds with a fitting unit: "1.25 µs". */
export function duration(nanoseconds: number): string {
  if (nanoseconds < 1e3) return `${nanoseconds.toFixed(0)} ns`;
  if (nanoseconds < 1e6) return `${(nanoseconds / 1e3).toFixed(2)} µs`;
  if (nanoseconds < 1e9) return `${(nanoseconds / 1e6).toFixed(2)} ms`;
  return `${(nanoseconds / 1e9).toFixed(2)} s`;
}

/** An address with its space: "smem+0x1a00". */
export function address(space: string, offset: number): string {
  return `${space}+0x${offset.toString(16)}`;
}
