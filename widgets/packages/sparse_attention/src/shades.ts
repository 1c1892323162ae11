// What the colours of probabilities mean: equal steps are equal factors, for most keys of a query get little.

import { type LegendItem, legendScale } from "@sglab/core";
import { colorOf, cssGradient } from "@sglab/memory/cividis";

const LEAST = 0.001;
const RANGE = { low: Math.log10(LEAST), high: 0 };

export function shadeOf(probability: number): string {
  return colorOf(Math.log10(Math.max(probability, LEAST)), RANGE);
}

/** The scale with its decades. */
export function scaleItem(): LegendItem {
  return legendScale(
    "probability",
    cssGradient(),
    ["≤ 0.001", "0.01", "0.1", "1"],
    "Logarithmic: equal steps of colour are equal factors. Below 0.001 the colour stays the darkest.",
  );
}
