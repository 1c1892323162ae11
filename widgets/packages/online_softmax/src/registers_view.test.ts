import { expect, test } from "vitest";
import { scoreFormula } from "./registers_view";

test("the formula of a score is that of the batch: capped by tanh where it has a logit cap", () => {
  expect(scoreFormula("e", 0)).toBe("s = q·Kᵀ · scale");
  expect(scoreFormula("2", 0)).toBe("s = q·Kᵀ · scale · log2e");
  expect(scoreFormula("e", 30)).toBe("s = 30·tanh(q·Kᵀ · scale / 30)");
  expect(scoreFormula("2", 30)).toBe("s = 30·tanh(q·Kᵀ · scale / 30) · log2e");
});
