// Tokens as people read them.

const MARKS: Record<string, string> = { " ": "␣", "\n": "↵", "\t": "⇥", "": "∅" };

/** A token as its text, with marks for what cannot be seen; its number where there is no tokenizer. */
export function tokenText(token: number, texts: Readonly<Record<string, string>>): string {
  const text = texts[String(token)];
  return text === undefined ? `#${token}` : markedText(text);
}

/** A text with marks for what cannot be seen. */
export function markedText(text: string): string {
  return MARKS[text] ?? text.replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll(" ", "␣");
}

/** A mnemonic or a path that may break after its dots and before its "::", not inside of words. */
export function breakable(text: string): DocumentFragment {
  const made = document.createDocumentFragment();
  for (const part of text.split(/(?<=\w[.](?=\w))|(?=::)/)) made.append(part, document.createElement("wbr"));
  made.lastChild?.remove();
  return made;
}

/** So many characters at most. */
export function cutText(text: string, most: number): string {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}
