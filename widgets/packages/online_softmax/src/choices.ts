// What a reader chooses in the page alone.

import type { FormulaName, RuleName } from "./formulas";
import type { Order } from "./merge";
import type { Base } from "./numbers";

export interface Choices {
  formula: FormulaName;
  rule: RuleName;
  order: Order;
  base: Base;
}

/** What the reader put into a partial instead of what the kernel wrote. */
export const HELD = {
  kernel: "what its split computed",
  empty: "nothing: LSE = −inf, O = 0",
  garbage: "nothing: LSE = −inf, O never written (NaN)",
  infinite: "nothing, FlashAttention 2's way: LSE = +inf, O = 0",
} as const;
export type Held = keyof typeof HELD;
