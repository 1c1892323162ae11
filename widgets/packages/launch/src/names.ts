// Words for warps, barriers and operations.

import { format } from "@sglab/core";
import type { Selection } from "@sglab/protocol";
import type { Barrier, Launch } from "./data";

/** Of asynchronous operations. */
export const TRACKS = ["copies", "matrix products", "tensor memory"] as const;

export function roleName(role: string): string {
  return role.replace("_", " ");
}

export function warpName({ meta }: Launch, row: number): string {
  const rank = Math.floor(row / meta.warps);
  const cta = meta.ctas[rank];
  return `CTA ${cta} warp ${row % meta.warps}`;
}

/** Whether the launch's warps do different things: where all do the same, naming it would say nothing. */
export function hasRoles({ meta }: Launch): boolean {
  return new Set(meta.roles.filter((role) => role !== "idle")).size > 1;
}

/** "CTA 0 warp 8 (mma)"; without roles "CTA 0 warp 8". */
export function warpAndRole(launch: Launch, row: number): string {
  const role = hasRoles(launch) ? ` (${roleName(launch.meta.roles[row] as string)})` : "";
  return `${warpName(launch, row)}${role}`;
}

/** "mbarrier smem+0x36d80 of CTA 0", "barrier 1 of CTA 0", "the whole cluster". */
export function barrierPlace({ meta }: Launch, { kind, rank, object }: Barrier): string {
  if (kind === "cluster") return "the whole cluster";
  const place = kind === "mbarrier" ? `mbarrier ${format.address("smem", object)}` : `barrier ${object}`;
  return `${place} of CTA ${meta.ctas[rank]}`;
}

/** "full[1]", "the cluster barrier". */
export function barrierInText({ kind, name }: Barrier): string {
  return kind === "cluster" ? `the ${name}` : name;
}

/** The barrier as the shared selection names it: CTA / kind / number or offset. */
export function barrierKey({ meta }: Launch, index: number): string {
  const { kind, rank, object } = meta.barriers[index] as Barrier;
  const place = kind === "mbarrier" ? `0x${object.toString(16)}` : String(object);
  return `${meta.ctas[rank]}/${kind}/${place}`;
}

export function barrierOf(launch: Launch, selection: Selection): number | undefined {
  if (selection.barrier === undefined) return undefined;
  const found = launch.meta.barriers.findIndex((_, i) => barrierKey(launch, i) === selection.barrier);
  return found >= 0 ? found : undefined;
}

/** Rows that a selection names: a warp's, a CTA's, none. */
export function rowsOf({ meta }: Launch, { cta, warp }: Selection): number[] {
  if (cta === undefined) return [];
  const rank = meta.ctas.indexOf(cta);
  if (rank < 0) return [];
  const first = rank * meta.warps;
  if (warp !== undefined) return warp < meta.warps ? [first + warp] : [];
  return Array.from({ length: meta.warps }, (_, i) => first + i);
}
