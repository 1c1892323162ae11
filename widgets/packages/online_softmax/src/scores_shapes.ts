// What is drawn of the scores: their range, ticks, stems, and the keys that a mask hides. Pure.

/** About `count` round numbers from 0 on, none so near the end that it would be cut. */
export function ticks(end: number, count: number): number[] {
  const rough = Math.max(1, end / count);
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * ([1, 2, 5, 10].find((factor) => factor * unit >= rough) ?? 10);
  const found = Array.from({ length: Math.floor(end / step) + 1 }, (_, i) => i * step);
  return found.filter((key) => key === 0 || key < end * 0.98);
}

/** Runs of keys, from and to, among the first `end` whose score is −inf: a mask hides them. */
export function masked(scores: ArrayLike<number>, end: number): [number, number][] {
  const runs: [number, number][] = [];
  for (let key = 0; key < end; key++) {
    if (scores[key] !== Number.NEGATIVE_INFINITY) continue;
    const last = runs.at(-1);
    if (last?.[1] === key) last[1] = key + 1;
    else runs.push([key, key + 1]);
  }
  return runs;
}

export function extent(scores: ArrayLike<number>): [number, number] {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (let i = 0; i < scores.length; i++) {
    const score = scores[i] as number;
    if (!Number.isFinite(score)) continue; // masked
    low = Math.min(low, score);
    high = Math.max(high, score);
  }
  return low < high ? [low, high] : [low - 1, high + 1];
}

/** Where an axis is labelled: its ends and 0, or what is halfway where 0 is not well between them. */
export function levels(low: number, high: number): number[] {
  const share = -low / (high - low);
  return [low, share > 0.2 && share < 0.8 ? 0 : (low + high) / 2, high];
}

export type Scale = (value: number) => number;

/** One stem per key from `floor`, or per pixel one that holds those of all its keys. */
export function stems(
  scores: ArrayLike<number>,
  from: number,
  to: number,
  x: Scale,
  y: Scale,
  floor: number,
): string {
  const parts: string[] = [];
  let pixel = Number.NaN;
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  const flush = () => {
    if (low > high) return; // all masked
    const [from, to] = [Math.min(y(high), floor), Math.max(y(low), floor)];
    parts.push(`M${pixel + 0.5},${from.toFixed(1)}V${to.toFixed(1)}`);
  };
  for (let token = from; token < to; token++) {
    const at = Math.floor(x(token + 0.5));
    if (at !== pixel) {
      flush();
      pixel = at;
      low = Number.POSITIVE_INFINITY;
      high = Number.NEGATIVE_INFINITY;
    }
    const score = scores[token] as number;
    if (!Number.isFinite(score)) continue;
    low = Math.min(low, score);
    high = Math.max(high, score);
  }
  flush();
  return parts.join("");
}
