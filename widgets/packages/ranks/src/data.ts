// A pass of several ranks as Python recorded it; times are in µs since the first rank began it.

import type { Numbers } from "@sglab/protocol";
import type { Joint, PassInfo, RanksSource, RunInfo, Weight } from "./protocol";

export interface Span {
  begin: number;
  end: number;
}

export interface Recorded {
  step: number;
  passes: PassInfo[];
  joints: Joint[];
  run: RunInfo;
  weights: Weight[];
  times: Numbers;
  parts: Numbers;
  begins: number[];
}

const ALL = 2 ** 31;

export async function readRun(source: RanksSource): Promise<Recorded> {
  const [times, parts, begins] = await Promise.all([
    source.slice("times", 0, ALL),
    source.slice("parts", 0, ALL),
    source.slice("begins", 0, ALL),
  ]);
  return {
    step: source.get("step"),
    passes: source.get("passes"),
    joints: source.get("joints"),
    run: source.get("run"),
    weights: source.get("shards"),
    times: times.data,
    parts: parts.data,
    begins: Array.from(begins.data),
  };
}

/** undefined: the rank takes no part. */
export function spanOf(
  { times, run }: Pick<Recorded, "times" | "run">,
  joint: number,
  rank: number,
): Span | undefined {
  const at = (joint * run.size + rank) * 2;
  const begin = times[at] as number;
  return Number.isNaN(begin) ? undefined : { begin, end: times[at + 1] as number };
}

/** When the last rank has come: until then the others wait. */
export function metAt(recorded: Pick<Recorded, "times" | "run" | "joints">, joint: number): number {
  const ranks = recorded.joints[joint]?.ranks ?? [];
  return Math.max(...ranks.map((rank) => spanOf(recorded, joint, rank)?.begin ?? 0));
}

export function endOf(recorded: Pick<Recorded, "times" | "run" | "joints">, joint: number): number {
  const ranks = recorded.joints[joint]?.ranks ?? [];
  return Math.max(...ranks.map((rank) => spanOf(recorded, joint, rank)?.end ?? 0));
}

/** Bytes from rank to rank; undefined: nothing is exchanged in parts. */
export function exchanged({ parts, run }: Recorded, joint: number): number[][] | undefined {
  const { size } = run;
  const rows = Array.from({ length: size }, (_, from) =>
    Array.from({ length: size }, (_, to) => parts[(joint * size + from) * size + to] as number),
  );
  return rows.some((row) => row.some((each) => !Number.isNaN(each))) ? rows : undefined;
}

/** Number of the model's layer that a module belongs to; undefined: none. */
export function layerOf(module: string): number | undefined {
  const found = /layers\.(\d+)/.exec(module);
  return found ? Number(found[1]) : undefined;
}

export interface Share {
  computing: number;
  waiting: number;
  moving: number;
}

/** µs of a rank's pass: computing, waiting for others, moving bytes. Where several collectives run at once the time counts
 * once: as moving if one of them moves. */
export function sharesOf(recorded: Recorded, rank: number): Share {
  const waits: Span[] = [];
  const moves: Span[] = [];
  const first = recorded.begins[rank] ?? 0;
  recorded.joints.forEach((_, joint) => {
    const span = spanOf(recorded, joint, rank);
    if (!span) return;
    const met = Math.min(span.end, Math.max(span.begin, metAt(recorded, joint)));
    waits.push({ begin: span.begin, end: met });
    moves.push({ begin: met, end: span.end });
  });
  const moving = covered(moves);
  const both = covered([...waits, ...moves]);
  const last = Math.max(first, ...moves.map(({ end }) => end));
  return { computing: Math.max(0, last - first - both), waiting: both - moving, moving };
}

/** µs within at least one of them. */
function covered(spans: readonly Span[]): number {
  let sum = 0;
  let until = Number.NEGATIVE_INFINITY;
  for (const { begin, end } of [...spans].sort((a, b) => a.begin - b.begin)) {
    sum += Math.max(0, end - Math.max(begin, until));
    until = Math.max(until, end);
  }
  return sum;
}
