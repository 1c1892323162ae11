// What captures and replays are, in sentences.

import { format } from "@sglab/core";
import type { Address, Event, Launch } from "./protocol";

const { count, plural } = format;

export function sentence(event: Event | undefined): string {
  if (!event) return "Nothing is captured yet.";
  if (event.kind === "capture") {
    const launches = event.launches ? ` ${plural(event.launches, "launch", "launches")} recorded` : "";
    return `Size ${event.bs} captured after ${plural(event.warm_ups, "run")} to warm up:${launches || " its launches are the GPU's"}.`;
  }
  const pad = event.bs - event.raw;
  const padded = pad ? `, padded by ${plural(pad, "slot")}` : ", without padding";
  const step = event.step >= 0 ? `The engine's step ${count(event.step)}: ` : "";
  return `${step}${plural(event.raw, "request")} replayed with the graph of size ${event.bs}${padded}.`;
}

/** The next captured size; undefined: none is large enough. */
export function sizeFor(sizes: readonly number[], requests: number): number | undefined {
  return sizes.find((size) => size >= requests);
}

/** What a batch of so many requests does. */
export function choiceFor(sizes: readonly number[], requests: number): string {
  if (!Number.isInteger(requests) || requests < 1) return "requests: write a whole number, at least 1";
  const [size, who] = [sizeFor(sizes, requests), requests === 1 ? "request" : "requests"];
  return size === undefined
    ? `${who}: runs without a graph, the largest is ${sizes.at(-1)}`
    : `${who}: replays size ${size}, ${plural(size - requests, "slot")} padded`;
}

/** An address with its name; temporaries are numbered as they are first written. */
export function addressText(addresses: readonly Address[], index: number): string {
  const [hex, name] = addresses[index] ?? ["?", ""];
  return name ? `${name} (${hex})` : hex;
}

/** Launches before and after one that it depends on or that depend on it, through an address. */
export function neighbours(
  launches: readonly Launch[],
  index: number,
): { before: number[]; after: number[] } {
  const launch = launches[index];
  const before = new Set<number>();
  const after: number[] = [];
  if (!launch) return { before: [], after };
  for (const address of launch[1])
    for (let i = index - 1; i >= 0; i--)
      if (launches[i]?.[2].includes(address)) {
        before.add(i);
        break;
      }
  const open = new Set(launch[2]);
  for (let i = index + 1; i < launches.length && open.size; i++) {
    const [, reads, writes] = launches[i] as Launch;
    if (reads.some((each) => open.has(each))) after.push(i);
    for (const each of writes) open.delete(each);
  }
  return { before: [...before].sort((a, b) => a - b), after };
}
