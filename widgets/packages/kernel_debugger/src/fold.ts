// Which lines are worth a row: those with code and their surroundings, or all.

/** Lines with code, `around` lines beside them, and what is `kept` anyway; ascending. */
export function linesWithCode(
  count: number,
  hasCode: (line: number) => boolean,
  kept: (line: number) => boolean,
  around: number,
): Int32Array {
  const shown = new Uint8Array(count + 1);
  for (let line = 1; line <= count; line++) {
    if (kept(line)) shown[line] = 1;
    if (!hasCode(line)) continue;
    for (let at = Math.max(1, line - around); at <= Math.min(count, line + around); at++) shown[at] = 1;
  }
  const lines = [];
  for (let line = 1; line <= count; line++) if (shown[line]) lines.push(line);
  return Int32Array.from(lines);
}
