// Tokens as people read them.

const MARKS: Record<string, string> = { " ": "␣", "\n": "↵", "\t": "⇥", "": "∅" };

/** A token as its text, with marks for what cannot be seen; its number where there is no tokenizer. */
export function tokenText(token: number, texts: Readonly<Record<string, string>>): string {
  const text = texts[String(token)];
  if (text === undefined) return `#${token}`;
  return MARKS[text] ?? text.replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll(" ", "␣");
}

/** So many characters at most. */
export function cutText(text: string, most: number): string {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}
