// Which points and roofs are drawn, and over which decades the axes run.

import type { Machine, Mark, Place } from "./protocol";
import { rateOf } from "./words";

export interface Spot {
  /** Its number among all points. */
  index: number;
  mark: Mark;
  place: Place;
  x: number;
  y: number;
}

/** Points under a machine's roofs: those timed on another machine have no place there. */
export function spotsOf(marks: readonly Mark[], machine: string): Spot[] {
  return marks.flatMap((mark, index) => {
    const place = mark.at[machine];
    if (!place || (mark.machine && mark.machine !== machine)) return [];
    return [{ index, mark, place, x: place.intensity, y: rateOf(mark, machine) }];
  });
}

/** Which points have no place under a machine's roofs, and why; "" where all have one. */
export function hiddenText(marks: readonly Mark[], machine: string): string {
  const timed = marks.filter((mark) => mark.machine && mark.machine !== machine);
  const others = [...new Set(timed.map((mark) => mark.machine))];
  const without = marks.filter((mark) => !timed.includes(mark) && !mark.at[machine]);
  const idle = without.filter(({ flops }) => flops.every(([, count]) => count === 0));
  const peakless = without.filter((mark) => !idle.includes(mark));
  const said = [];
  if (timed.length) said.push(`${timed.length} timed on ${others.join(" or ")}`);
  if (peakless.length) said.push(`${named(peakless)}, for whose arithmetic no peak is published here`);
  if (idle.length) said.push(`${named(idle)}, which has no FLOPs`);
  return said.length ? `Not shown: ${said.join("; ")}.` : "";
}

/** The first names, quoted: a name may be any word of the sentence. */
function named(marks: readonly Mark[]): string {
  const names = [...new Set(marks.map(({ label }) => `“${label}”`))];
  return `${names.slice(0, 3).join(", ")}${names.length > 3 ? ", …" : ""}`;
}

export interface Roof {
  /** Kinds of arithmetic with this peak. */
  kinds: string[];
  peak: number;
  /** FLOPs per byte at which it meets the bandwidth. */
  ridge: number;
}

export const USUAL = ["fp8", "bf16", "fp32"];
const SAME = 1.05; // peaks this close are one line

export function bandwidthOf(machine: Machine): number {
  return machine.ceilings.find(([kind]) => kind === "memory")?.[1] ?? 1;
}

/** The usual roofs and those that points need, highest first. */
export function roofsOf(machine: Machine, spots: readonly Spot[]): Roof[] {
  const needed = new Set([...USUAL, ...spots.map(({ place }) => place.kind)]);
  const bandwidth = bandwidthOf(machine);
  const roofs: Roof[] = [];
  const peaks = machine.ceilings.filter(([kind]) => needed.has(kind)).sort(([, a], [, b]) => b - a);
  for (const [kind, peak] of peaks) {
    const last = roofs.at(-1);
    if (last && last.peak / peak < SAME) last.kinds.push(kind);
    else roofs.push({ kinds: [kind], peak, ridge: peak / bandwidth });
  }
  return roofs;
}

/** Lowest and highest decade, as powers of ten. */
export type Decades = [low: number, high: number];

export function decadesOf(
  machine: Machine,
  roofs: readonly Roof[],
  spots: readonly Spot[],
): { x: Decades; y: Decades } {
  const bandwidth = bandwidthOf(machine);
  const ridges = roofs.map(({ ridge }) => ridge);
  const least = Math.min(1, ...spots.map(({ x }) => x / 2));
  const low = Math.floor(Math.log10(least));
  const most = Math.max(...ridges.map((ridge) => ridge * 8), ...spots.map(({ x }) => x * 2));
  const high = Math.log10(most);
  const floor = Math.min(10 ** low * bandwidth, ...spots.map(({ y }) => y / 2));
  const top = Math.max(...roofs.map(({ peak }) => peak), ...spots.map(({ y }) => y)); // also one that cannot be
  return { x: [low, high], y: [Math.floor(Math.log10(floor)), Math.log10(top) + 0.35] };
}

/** Whole decades between two powers of ten, every second, third … where there are too many. */
export function ticks([low, high]: Decades, most: number): number[] {
  const first = Math.ceil(low - 1e-9);
  const count = Math.floor(high + 1e-9) - first + 1;
  const every = Math.max(1, Math.ceil(count / Math.max(1, most)));
  return Array.from({ length: Math.ceil(count / every) }, (_, i) => first + i * every);
}

const FINER = [[1], [1, 2, 5], [1, 2, 3, 4, 5, 6, 7, 8, 9], Array.from({ length: 90 }, (_, i) => 1 + i / 10)];

/** Where ticks are, as powers of ten: whole decades, or between them where less than two of those are in sight. */
export function ticksIn([low, high]: Decades, most: number): number[] {
  const whole = ticks([low, high], most);
  if (whole.length > 1) return whole;
  for (const steps of FINER) {
    const found: number[] = [];
    for (let decade = Math.floor(low); decade <= high; decade += 1)
      found.push(...steps.map((step) => decade + Math.log10(step)).filter((at) => at >= low && at <= high));
    if (found.length < 2) continue;
    const every = Math.ceil(found.length / Math.max(2, most));
    return found.filter((_, i) => i % every === 0);
  }
  return whole;
}

/** A range made `factor` times as wide, in which one place stays where it is. */
export function zoomed([low, high]: Decades, at: number, factor: number): Decades {
  return [at - (at - low) * factor, at + (high - at) * factor];
}

/** Series in the order of their first points; those without one are "". */
export function seriesOf(spots: readonly Spot[]): string[] {
  return [...new Set(spots.map(({ mark }) => mark.series))];
}

/** The next point of the same series and origin, or of all where it has none. */
export function neighbour(spots: readonly Spot[], selected: number, step: 1 | -1): number | undefined {
  const now = spots[selected];
  if (!now) return step > 0 ? 0 : spots.length - 1;
  const like = ({ mark }: Spot) => mark.series === now.mark.series && mark.origin === now.mark.origin;
  for (let i = selected + step; i >= 0 && i < spots.length; i += step) if (like(spots[i] as Spot)) return i;
  return undefined;
}
