// What Python sends: one head's scores, its tiles, the states of every formula after each tile, the kernel's partials.

import type { Numbers, TensorName } from "@sglab/protocol";
import { FORMULAS, type FormulaName } from "./formulas";
import type { ONLINE_SOFTMAX, OnlineSoftmaxSource, Question, RunInfo } from "./protocol";

export const LN2 = Math.LN2;

/** After one tile; maxima are base-2 logits. */
export interface State {
  tileTop: number;
  top: number;
  rescale: number;
  tileTotal: number;
  total: number;
  error: number;
}

export interface Tile {
  split: number;
  start: number;
  end: number;
}

export interface Recorded {
  question: Question;
  info: RunInfo;
  /** Base-2 logits. */
  scores: Numbers;
  tiles: Tile[];
  /** First and last step of each split; empty splits have none. */
  steps: ({ first: number; last: number } | undefined)[];
  splits: number;
  vDim: number;
  kernelO: Numbers;
  kernelLse: number;
  partialO: Numbers[];
  partialLse: number[];
  trueO: Numbers[];
  trueLse: number[];
  /** In float64, over the keys of a split that have been taken in with a tile. */
  truth(step: number): Numbers;
  state(formula: FormulaName, step: number): State;
  accumulator(formula: FormulaName, step: number): Numbers;
}

const COLUMNS = 6;
const NAMES = [
  "scores",
  "tiles",
  "partial_o",
  "partial_lse",
  "kernel_o",
  "kernel_lse",
  "true_o",
  "true_lse",
  "so_far_o",
] as const;

export async function readRun(source: OnlineSoftmaxSource): Promise<Recorded> {
  const ofFormulas = Object.keys(FORMULAS).flatMap((name) => [`${name}.state`, `${name}.o`] as const);
  const all: TensorName<typeof ONLINE_SOFTMAX>[] = [...NAMES, ...ofFormulas];
  const tensors = await Promise.all(all.map((name) => source.slice(name, 0, 2 ** 31)));
  const at = (name: (typeof all)[number]) => tensors[all.indexOf(name)]?.data as Numbers;
  const splits = at("partial_lse").length;
  const vDim = at("kernel_o").length;
  const rows = (data: Numbers) =>
    Array.from({ length: splits }, (_, i) => data.subarray(i * vDim, (i + 1) * vDim) as Numbers);
  const tiles = tilesOf(at("tiles"));
  return {
    question: source.get("question"),
    info: source.get("run"),
    scores: at("scores"),
    tiles,
    steps: stepsOf(tiles, splits),
    splits,
    vDim,
    kernelO: at("kernel_o"),
    kernelLse: at("kernel_lse")[0] as number,
    partialO: rows(at("partial_o")),
    partialLse: Array.from(at("partial_lse")),
    trueO: rows(at("true_o")),
    trueLse: Array.from(at("true_lse")),
    truth: (step) => at("so_far_o").subarray(step * vDim, (step + 1) * vDim) as Numbers,
    state(formula, step) {
      const [tileTop, top, rescale, tileTotal, total, error] = at(`${formula}.state`).subarray(
        step * COLUMNS,
        (step + 1) * COLUMNS,
      ) as unknown as [number, number, number, number, number, number];
      return { tileTop, top, rescale, tileTotal, total, error };
    },
    accumulator: (formula, step) => at(`${formula}.o`).subarray(step * vDim, (step + 1) * vDim) as Numbers,
  };
}

function tilesOf(data: Numbers): Tile[] {
  return Array.from({ length: data.length / 3 }, (_, i) => ({
    split: data[3 * i] as number,
    start: data[3 * i + 1] as number,
    end: data[3 * i + 2] as number,
  }));
}

function stepsOf(tiles: Tile[], splits: number): Recorded["steps"] {
  return Array.from({ length: splits }, (_, split) => {
    const first = tiles.findIndex((tile) => tile.split === split);
    return first < 0 ? undefined : { first, last: tiles.findLastIndex((tile) => tile.split === split) };
  });
}
