// The recurrence and the merge, right and wrong in ways that happen: names, formulas, and what goes wrong.

export interface Formula {
  label: string;
  right: boolean;
  /** What it computes; `exp` becomes `exp2` where base 2 is shown. */
  text: string;
  why: string;
}

export const FORMULAS = {
  online: {
    label: "online softmax",
    right: true,
    text: "m′ = max(m, max s) · α = exp(m − m′) · d ← α·d + Σ exp(s − m′) · O ← α·O + exp(s − m′)·V",
    why:
      "What was summed with the old maximum is brought to the new one by one multiplication. " +
      "Every split must see a key that is not masked: otherwise see the guarded one.",
  },
  d_starts_at_1: {
    label: "d starts at 1 (FlashInfer's state_t)",
    right: true,
    text: "before the first tile: m = −inf, d = 1, O = 0",
    why:
      "It looks like a bug and is none: the first tile's α is exp(−inf) = 0, which erases the 1. " +
      "And a state that never sees a key normalises to 0 / 1 = 0, not to 0 / 0 = NaN.",
  },
  guarded: {
    label: "online softmax, guarded",
    right: true,
    text: "where m or s is −inf: α = 0 and exp(s − m′) = 0 · O / 0 counts as 0",
    why:
      "A split whose scores are all −inf, all masked, has m′ = −inf, and exp(−inf − (−inf)) is NaN. With the guard it " +
      "leaves what an empty split leaves: O = 0 and LSE = −inf.",
  },
  no_rescale: {
    label: "the rescale left out",
    right: false,
    text: "d ← d + Σ exp(s − m′) · O ← O + exp(s − m′)·V",
    why:
      "Older tiles keep the weight of an older, smaller maximum: they count too much, by exp(m′ − m). " +
      "Where the first tile holds the maximum, nothing shows; a test on mild data passes.",
  },
  unshifted: {
    label: "no maximum subtracted",
    right: false,
    text: "d ← d + Σ exp(s) · O ← O + exp(s)·V",
    why:
      "Right in exact arithmetic. In float32 exp overflows above 88.72, and weights in float16 above 11.09. " +
      "Multiply the scores by 16 and look.",
  },
  divides_each_tile: {
    label: "divided by d at every tile",
    right: false,
    text: "O ← α·O + (exp(s − m′) / d)·V, and O / d at the end",
    why: "The running O must stay un-normalised until the end. This divides twice, the first time by a d that still grows.",
  },
  softmax_times_exp: {
    label: "softmax(s) · exp(s − m′)",
    right: false,
    text: "O ← α·O + softmax(s)·exp(s − m′)·V, and O / d at the end",
    why: "Weights are squared and normalised twice: large scores win too much. Right is exp(s − m′)·V alone.",
  },
} satisfies Record<string, Formula>;
export type FormulaName = keyof typeof FORMULAS;

export const RULES = {
  v2_guarded: {
    label: "merge_state_v2, guarded",
    right: true,
    text: "LSE = M + ln Σ exp(LSEᵢ − M) · O = Σ exp(LSEᵢ − LSE)·Oᵢ, M = max LSEᵢ",
    why: "Natural logarithm. An empty partial has weight 0 and its O is not read; only empty ones give O = 0, LSE = −inf.",
  },
  merge_state: {
    label: "merge_state (FlashInfer, base 2)",
    right: true,
    text: "LSE = M + log2 Σ exp2(LSEᵢ − M) · O = Σ exp2(LSEᵢ − LSE)·Oᵢ",
    why:
      "LSE are in base 2 here, converted on the way in and out. All empty gives O = 0, LSE = −inf; " +
      "+inf is no empty partial here: it makes NaN. An empty partial's O is still multiplied, by 0: a NaN in it survives.",
  },
  merge_state_v2: {
    label: "merge_state_v2 (natural)",
    right: true,
    text: "LSE = M + ln Σ exp(LSEᵢ − M) · O = Σ exp(LSEᵢ − LSE)·Oᵢ",
    why:
      "+inf counts as −inf. Two empty partials give exp(−inf − (−inf)) = exp(NaN): NaN. " +
      "An empty partial's O is multiplied by 0: a NaN in it survives.",
  },
  divide_by_max: {
    label: "÷ exp(max LSE)",
    right: false,
    text: "O = Σ exp(LSEᵢ − M)·Oᵢ, LSE = M",
    why: "The weights add up to Σ exp(LSEᵢ − M), not to 1: the output is inflated, up to as many times as there are splits.",
  },
  newcomer_unweighted: {
    label: "newcomer without its weight",
    right: false,
    text: "O ← exp(M − M′)·O + Oᵢ · d ← exp(M − M′)·d + exp(LSEᵢ − M′)",
    why: "exp(LSEᵢ − M′) is missing before Oᵢ. Small where all LSE are close, large where they are not.",
  },
  base2_in_natural: {
    label: "base-2 LSE in a natural merge",
    right: false,
    text: "weights exp(log2e·LSEᵢ − …) instead of exp(LSEᵢ − …)",
    why: "Differences of LSE are stretched by log2(e) = 1.44: the heavier partial gets too much.",
  },
  unshifted: {
    label: "exp(LSE), no maximum subtracted",
    right: false,
    text: "O = Σ exp(LSEᵢ)·Oᵢ / Σ exp(LSEᵢ)",
    why: "Right in exact arithmetic; float32 overflows where an LSE exceeds 88.72, and inf / inf is NaN.",
  },
} satisfies Record<string, Formula>;
export type RuleName = keyof typeof RULES;
