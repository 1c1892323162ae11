// Probabilities as people read them.

/** "0.62", "0.0031", "<0.0001", "–" where it is not known. */
export function probability(value: number): string {
  if (Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  if (value < 1e-4) return "<0.0001";
  return value >= 0.01 ? value.toFixed(2) : value.toPrecision(2);
}
