// What the panel, the tabs and the dialog call things and widgets.

import type { Thing } from "./question";

/** What a widget shows, in a few words. */
export const SHOWS: Readonly<Record<string, string>> = {
  PageTable: "requests and pages of the pool, and the kernel that builds the arrays",
  SplitKV: "how the batch is cut into work, planner by planner",
  OnlineSoftmax: "m, d and O, tile by tile, and their merges",
  KernelDebugger: "source, registers and memory, step by step",
  WarpRoles: "every warp on a timeline, and who waits for whom",
  Barriers: "phases, arrivals and waiting warps",
  SharedMemory: "tiles, swizzles, bank conflicts",
  DraftTree: "draft trees, their masks, what is kept and moved",
  BackendExplorer: "what every attention backend would build, run, cost and refuse",
  SparseAttention: "which keys are chosen for which query, and the error of that",
  Experts: "tokens × experts, loads, padded blocks, EPLB's copies",
  Ranks: "collectives of several ranks, and who holds which weights",
  Scheduler: "requests over steps: what each batch was made of, and why",
  RadixTree: "shared prefixes: matches, splits, locks, evictions",
  Graph: "captured decode passes: padding, launches, fixed addresses",
  NanSpread: "which instruction made the first NaN, and where it went",
  Roofline: "FLOPs and bytes under a GPU's ceilings",
  Layout: "coordinates beside addresses and banks, or lanes and registers",
  TensorMemory: "128 lanes × 512 columns: whose, and what is in them",
};

export const KINDS = [
  { kind: "batch", title: "Batches" },
  { kind: "launch", title: "Launches" },
  { kind: "session", title: "Sessions" },
  { kind: "recording", title: "Recordings" },
  { kind: "run", title: "Runs of the engine" },
  { kind: "engine", title: "Engines" },
  { kind: "layout", title: "Layouts" },
  { kind: "points", title: "Points of a roofline" },
] as const;

/** What the notebook calls a thing; a thing without a name is shown by a widget alone. */
export function nameOf(thing: Thing): string {
  return thing.names[0] ?? `${thing.kind} without a name`;
}

/** `KernelDebugger` as words: "Kernel debugger"; capitals of an abbreviation stay together: "Split KV". */
export function spelled(widget: string): string {
  const words = widget.split(/(?<=[a-z])(?=[A-Z])/);
  const spaced = words.map((word, i) => (i && /[a-z]/.test(word) ? word.toLowerCase() : word)).join(" ");
  return spaced.replace(/^Nan\b/, "NaN");
}

/** Every widget on every thing, for a list to choose from; the newest thing first. */
export function choices(things: readonly Thing[]): { label: string; thing: Thing; widget: string }[] {
  return [...things].reverse().flatMap((thing) =>
    thing.widgets.map((widget) => ({
      label: `${spelled(widget)} on ${nameOf(thing)} (${thing.title})`,
      thing,
      widget,
    })),
  );
}

/** What a debugger opens on: the newest session or launch. */
export function newestToDebug(things: readonly Thing[]): Thing | undefined {
  return [...things].reverse().find((thing) => thing.widgets.includes("KernelDebugger"));
}
