// Tokens by name.

import { tokenText } from "@sglab/core";
import type { Recorded } from "./data";

/** "Token 4 “a” of r0, position 4". */
export function tokenName({ tokens, texts }: Recorded, at: number): string {
  const one = tokens[at];
  return one
    ? `Token ${at} “${tokenText(one.token, texts)}” of r${one.request}, position ${one.position}`
    : "";
}
