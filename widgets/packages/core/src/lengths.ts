// Lengths of a batch as people write them: "300, 1000, 77" or "4096×32".

const MOST = 4096;

/** Tokens per request; null where the text is not such a list. */
export function parseLengths(text: string): number[] | null {
  const lengths: number[] = [];
  for (const part of text.split(/[\s,;]+/).filter(Boolean)) {
    const match = /^(\d[\d_]*(?:\.\d*)?(?:e\+?\d+)?)(?:[x×*](\d+))?$/i.exec(part);
    const length = Number(match?.[1]?.replaceAll("_", ""));
    const times = Number(match?.[2] ?? 1);
    if (!match || !Number.isSafeInteger(length) || length < 1) return null; // 1e6 and 2.0 are integers, too
    if (times < 1 || lengths.length + times > MOST) return null;
    for (let i = 0; i < times; i++) lengths.push(length);
  }
  return lengths.length ? lengths : null;
}

/** The inverse: runs of equal lengths as "4096×32". */
export function formatLengths(lens: ArrayLike<number>): string {
  const parts: string[] = [];
  for (let i = 0; i < lens.length; ) {
    let next = i + 1;
    while (next < lens.length && lens[next] === lens[i]) next += 1;
    parts.push(next - i > 1 ? `${lens[i]}×${next - i}` : String(lens[i]));
    i = next;
  }
  return parts.join(", ");
}
