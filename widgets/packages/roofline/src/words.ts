// Rates, counts and points in words.

import { format } from "@sglab/core";
import type { Row } from "@sglab/memory/parts";
import type { Machine, Mark, Texts } from "./protocol";

const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];

/** 989.4e12, "FLOP/s" → "989 TFLOP/s". */
export function si(value: number, unit: string): string {
  let power = 0;
  let scaled = value;
  while (Math.abs(scaled) >= 999.5 && power < PREFIXES.length - 1) {
    scaled /= 1000;
    power += 1;
  }
  const digits = scaled >= 100 || Number.isInteger(scaled) ? 0 : scaled >= 10 ? 1 : 2;
  return `${scaled.toFixed(digits)} ${PREFIXES[power]}${unit}`;
}

/** FLOPs per byte: "0.25", "3.9", "242". */
export function intensityText(value: number): string {
  return value >= 100 ? format.count(Math.round(value)) : value.toPrecision(value >= 10 ? 3 : 2);
}

const SHORT: Record<string, string> = {
  bf16: "BF16",
  fp8: "FP8",
  fp4: "FP4",
  int8: "INT8",
  tf32: "TF32",
  "fp64 tensor": "FP64 tensor",
  fp32: "FP32 (no tensor core)",
  fp16: "FP16 (no tensor core)",
  fp64: "FP64 (no tensor core)",
};

export function shortKind(kind: string): string {
  return SHORT[kind] ?? kind;
}

const LEAST = 0.01; // ns: who computes nothing takes no time
const TOLERANCE = 1.001;
const ABOVE =
  "above it, which no kernel is: the time or the counts are wrong, or its bytes came from a cache and not from memory";

/** What part of its roof a time reaches: "15 %"; "139 ×" where it cannot be. */
export function shareText(roofSeconds: number, seconds: number): string {
  const share = roofSeconds / seconds;
  if (share <= TOLERANCE) return format.percent(share);
  return `${share.toLocaleString("en-US", { maximumSignificantDigits: 3 })} ×`;
}

/** FLOPs per second of a point on a machine: what it reached, or without a time what is attainable. */
export function rateOf(mark: Mark, machine: string): number {
  const place = mark.at[machine];
  if (!place) return Number.NaN;
  return mark.seconds === null ? place.attainable : place.flops / mark.seconds;
}

/** What happened, in a sentence. */
export function sentence(mark: Mark, machine: string): string {
  const place = mark.at[machine];
  if (!place) return `${mark.label}: ${machine} has no published peak for its arithmetic.`;
  const origin = mark.series ? `${mark.series}, ${mark.origin}` : mark.origin;
  const at = `${intensityText(place.intensity)} FLOP per byte`;
  const most = si(place.attainable, "FLOP/s");
  if (mark.seconds === null)
    return `${mark.label} (${origin}): ${at}, at most ${most} on ${machine}, bound by ${place.bound}.`;
  const reached = rateOf(mark, machine);
  const share = format.percent(reached / place.attainable);
  const said = `${mark.label} (${origin}): ${at}, ${si(reached, "FLOP/s")} in ${duration(mark.seconds)}`;
  return reached > place.attainable * TOLERANCE
    ? `${said}: above its roof, which cannot be.`
    : `${said}, ${share} of its roof.`;
}

export function duration(seconds: number): string {
  const nanoseconds = seconds * 1e9;
  if (nanoseconds > 0 && nanoseconds < LEAST) return `less than ${LEAST} ns`;
  return nanoseconds < 1 && nanoseconds > 0
    ? `${nanoseconds.toPrecision(2)} ns`
    : format.duration(nanoseconds);
}

/** "500 ns at least"; of hardly anything no time is said. */
function leastText(seconds: number): string {
  return seconds * 1e9 < LEAST ? "" : `: ${duration(seconds)} at least`;
}

export function markRows(mark: Mark, machine: Machine, texts: Texts): Row[] {
  const place = mark.at[machine.name];
  const rows: Row[] = [["it is", `${mark.origin}: ${texts.origins[mark.origin] ?? ""}`]];
  if (mark.series) rows.push(["series", mark.series]);
  if (mark.how) rows.push(["how", mark.how]);
  for (const [kind, count] of mark.flops) rows.push([shortKind(kind), si(count, "FLOP")]);
  rows.push(["memory traffic", `${format.bytes(mark.bytes)} (${format.count(Math.round(mark.bytes))} B)`]);
  if (mark.requestedBytes !== null)
    rows.push([
      "requested",
      `${format.bytes(mark.requestedBytes)}, ${(mark.requestedBytes / mark.bytes).toFixed(1)} × as much: loads, stores and copies`,
    ]);
  if (!place) return [...rows, ["its roof", `${machine.name} has no published peak for its arithmetic`]];
  const peak = machine.ceilings.find(([kind]) => kind === place.kind)?.[1] ?? 0;
  const bandwidth = machine.ceilings.find(([kind]) => kind === "memory")?.[1] ?? 0;
  rows.push(
    [
      "intensity",
      `${intensityText(place.intensity)} FLOP per byte (ridge:\u00a0${intensityText(peak / bandwidth)})`,
    ],
    ["lower roof", place.bound === "memory" ? "memory bandwidth" : `arithmetic: ${texts.pipes[place.kind]}`],
    ["its roof", `${si(place.attainable, "FLOP/s")}${leastText(place.seconds)}`],
  );
  if (mark.seconds !== null)
    rows.push(
      ["took", `${duration(mark.seconds)} (${mark.origin}, ${mark.machine})`],
      ["reached", `${si(place.flops / mark.seconds, "FLOP/s")}, ${si(mark.bytes / mark.seconds, "B/s")}`],
      [
        "of its roof",
        `${shareText(place.seconds, mark.seconds)}${place.seconds > mark.seconds * TOLERANCE ? `: ${ABOVE}` : ""}`,
      ],
    );
  return rows;
}
