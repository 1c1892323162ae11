// Tokens by name.

import { tokenText } from "@sglab/core";
import type { Recorded } from "./data";

export function requestName({ names }: Pick<Recorded, "names">, row: number): string {
  return names[row] ?? `r${row}`;
}

/** "Token 4 “a” of r0, position 4". */
export function tokenName(recorded: Recorded, at: number): string {
  const { tokens, texts } = recorded;
  const one = tokens[at];
  return one
    ? `Token ${at} “${tokenText(one.token, texts)}” of ${requestName(recorded, one.request)}, position ${one.position}`
    : "";
}
