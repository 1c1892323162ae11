// What the workspace "sglab" holds: page table left, above plan and timeline; the debugger right, the full height.

import type { Placement } from "@jupyterlab/application";
import type { Thing } from "./question";
import { newestToDebug } from "./words";

export interface Place {
  thing: Thing;
  widget: string;
  mode: Placement["mode"];
  /** Beside which earlier place, by index; -1: the notebook. */
  beside: number;
}

/** Where each widget goes, in the order in which tabs are added. */
export function arrangement(things: readonly Thing[]): Place[] {
  const batch = [...things].reverse().find(({ kind }) => kind === "batch");
  const launch = newestToDebug(things);
  const recording = launch ? undefined : [...things].reverse().find(({ kind }) => kind === "recording");
  const timed = launch ?? recording;
  const places: Place[] = [];
  const put = (thing: Thing | undefined, widget: string, mode: Placement["mode"], beside: number): number =>
    thing?.widgets.includes(widget) ? places.push({ thing, widget, mode, beside }) - 1 : beside;

  const pages = put(batch, "PageTable", "tab-after", -1);
  put(launch, "KernelDebugger", "split-right", pages);
  const plan = put(batch, "SplitKV", "split-bottom", pages);
  put(timed, "WarpRoles", plan === pages ? "split-bottom" : "tab-after", plan);
  return places;
}
