// Which look represents which role and which track.

import { type Look, OPERATION_LOOKS, ROLE_LOOKS } from "@sglab/core";

const ROLES = Object.keys(ROLE_LOOKS);
const TRACKS = Object.keys(OPERATION_LOOKS);

export const LOOKS: Look[] = [...Object.values(ROLE_LOOKS), ...Object.values(OPERATION_LOOKS)];

export function lookOfRole(role: string): number {
  const known = ROLES.indexOf(role);
  return known >= 0 ? known : ROLES.indexOf("idle");
}

export function lookOfTrack(track: number): number {
  return ROLES.length + Math.min(track, TRACKS.length - 1);
}
