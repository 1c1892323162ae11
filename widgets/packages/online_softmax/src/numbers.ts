// Numbers of this widget: logits and LSE in the base that is shown, errors, signs of infinity.

export type Base = "e" | "2";

/** Four significant digits, "−inf", "NaN"; a true minus sign. */
export function number(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+inf" : "−inf";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  return text.replace("e+", "e").replaceAll("-", "−");
}

/** A base-2 logit. */
export function top(value: number, base: Base): string {
  return number(base === "2" ? value : value * Math.LN2);
}

/** A natural LSE, with its base. */
export function lse(value: number, base: Base): string {
  return base === "2" ? `${number(value * Math.LOG2E)} (base 2)` : `${number(value)} (natural)`;
}

/** A relative error, in words where it is none. */
export function errorText(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return "inf";
  if (value === 0) return "0";
  return value >= 0.01
    ? `${Number((100 * value).toPrecision(3))} %`
    : value.toExponential(1).replaceAll("-", "−");
}

/** Relative errors that are read against each other: all in percent, or all as powers of ten. */
export function errorAxis(values: readonly number[]): string[] {
  if (values.every((value) => value >= 0.01 || value === 0)) return values.map(errorText);
  const power = (value: number) => (value === 0 ? "0" : Number(value.toPrecision(1)).toExponential());
  return values.map((value) => power(value).replace("e+0", "").replace("e+", "e").replaceAll("-", "−"));
}

/** What float16 weights explain on thousands of keys, with room. */
export const BAD = 5e-3;

export function isBad(error: number): boolean {
  return !(error < BAD);
}
