// Tokens and probabilities as people read them.

const MARKS: Record<string, string> = { " ": "␣", "\n": "↵", "\t": "⇥", "": "∅" };

/** A token as its text, with marks for what cannot be seen; its number where there is no tokenizer. */
export function tokenText(token: number, texts: Record<string, string>): string {
  const text = texts[String(token)];
  if (text === undefined) return `#${token}`;
  return MARKS[text] ?? text.replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll(" ", "␣");
}

/** So many characters at most. */
export function cut(text: string, most: number): string {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

/** "0.62", "0.0031", "<0.0001", "–" where it is not known. */
export function probability(value: number): string {
  if (Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  if (value < 1e-4) return "<0.0001";
  return value >= 0.01 ? value.toFixed(2) : value.toPrecision(2);
}
