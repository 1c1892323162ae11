// m, d, the rescale factor and the error after every tile: four small charts with one cursor.

import { h } from "@sglab/core";
import type { Recorded } from "./data";
import type { FormulaName } from "./formulas";
import { type Chart, drawChart } from "./history_chart";
import { type Base, errorAxis, errorText, number } from "./numbers";

export interface HistoryShown {
  recorded: Recorded;
  formula: FormulaName;
  base: Base;
  /** Tiles that have been summed. */
  done: number;
}

export function historyView(shown: HistoryShown, width: number): HTMLElement {
  const columns = width >= 640 ? 4 : 2;
  const each = Math.floor((width - 10 * (columns - 1)) / columns);
  const charts = chartsOf(shown).map((chart) => {
    const last = shown.done - 1;
    const now = last >= 0 ? chart.text(chart.value(last)) : "–";
    return h(
      "figure",
      { class: "sgs-chart", title: chart.meaning },
      h("figcaption", {}, chart.title, " ", h("strong", {}, now)),
      drawChart(shown.recorded, shown.done, chart, each),
    );
  });
  const box = h("div", { class: "sgs-history" }, ...charts);
  box.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
  return box;
}

function chartsOf({ recorded, formula, base }: HistoryShown): Chart[] {
  const unit = base === "2" ? 1 : Math.LN2;
  const state = (step: number) => recorded.state(formula, step);
  const right = (step: number) => recorded.state("online", step);
  return [
    {
      title: base === "2" ? "m, base 2" : "m, natural",
      meaning: "The largest score so far, restarted in every split; dashed: by online softmax",
      value: (step) => state(step).top * unit,
      right: (step) => right(step).top * unit,
      text: number,
      least: [0, 0],
    },
    {
      title: "rescale α",
      meaning: "What d and O are multiplied by when the tile is added: below 1 where it raised the maximum",
      least: [0, 1],
      value: (step) => state(step).rescale,
      right: (step) => right(step).rescale,
      text: number,
    },
    {
      title: "d",
      meaning: "The sum of exp(score − m) so far, restarted in every split; dashed: by online softmax",
      value: (step) => state(step).total,
      right: (step) => right(step).total,
      text: number,
      least: [0, 0],
    },
    {
      title: "error of O / d",
      meaning:
        "Against float64 over the keys of the split that have been taken in; logarithmic; dashed: online softmax's",
      least: [1e-5, 1],
      value: (step) => state(step).error,
      right: (step) => right(step).error,
      text: errorText,
      axis: errorAxis,
      logarithmic: true,
    },
  ];
}
