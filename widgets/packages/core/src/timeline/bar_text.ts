// What of an instruction fits into its bar. Pure.

const LEAST = 3;

/** The text in so many columns: whole, or cut behind one of its words with a mark that says so; "" where not even one fits. */
export function barText(text: string, columns: number): string {
  const whole = text.replace(/\s+/g, " ").replace(/;$/, "").trim();
  if (whole.length <= columns) return whole;
  for (let end = columns - 1; end >= LEAST; end--)
    if (" ,.".includes(whole[end] as string)) return `${whole.slice(0, end).replace(/[ ,.]+$/, "")}…`;
  return "";
}
