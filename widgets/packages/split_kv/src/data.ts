// What Python sends: the question asked, one pane per planner, and each plan's work as columns.

import type { Numbers, Tensor, TensorName } from "@sglab/protocol";
import type { Answer, Pane, Question, SPLIT_KV, SplitKVSource } from "./protocol";

const NONE: readonly string[] = [];
const COLUMNS = [
  "request",
  "headBlock",
  "split",
  "tokenStart",
  "tokenEnd",
  "cta",
  "cluster",
  "sm",
  "slot",
  "wave",
  "start",
  "end",
] as const;

/** One row per CTA and work unit; `start` and `end` are modelled times in KV tokens. */
export type Work = Record<(typeof COLUMNS)[number], Numbers> & { size: number } & Named;

/** The requests' names; none, where only their lengths are known. */
export interface Named {
  names: readonly string[];
}

export function nameOf({ names }: Named, request: number): string {
  return names[request] ?? `r${request}`;
}

export function workOf(tensor: Tensor, names: readonly string[] = []): Work {
  const size = tensor.shape[1] ?? 0;
  const columns = COLUMNS.map((name, i) => [name, tensor.data.subarray(i * size, (i + 1) * size)]);
  return { ...Object.fromEntries(columns), size, names } as Work;
}

/** Everything the page draws. */
export interface Plans extends Named {
  question: Question;
  lens: Numbers;
  shown: { pane: Pane; work: Work | null }[];
}

export function plansOf(answer: Omit<Answer, "revision">, names: readonly string[]): Plans {
  const lens = answer.tensors.seq_lens;
  if (!lens) throw new Error("The lengths did not arrive.");
  return {
    question: answer.question,
    lens: lens.data.slice(),
    names,
    shown: answer.panes.map((pane) => {
      const tensor = answer.tensors[`${pane.name}.work`];
      return { pane, work: tensor ? workOf(tensor, names) : null };
    }),
  };
}

/** The same array as long as they are the same requests. */
export function namesOf(source: SplitKVSource): readonly string[] {
  return source.get("names") ?? NONE; // pages that were saved before there were any
}

/** Reads what the widget shows from its traits and tensors: at first paint, and after Python planned on its own. */
export async function readPlans(source: SplitKVSource): Promise<Plans> {
  const panes = source.get("panes");
  const works = panes.filter((pane) => pane.drawn).map((pane) => `${pane.name}.work` as const);
  const names: TensorName<typeof SPLIT_KV>[] = ["seq_lens", ...works];
  const tensors = await Promise.all(names.map((name) => source.slice(name, 0, 2 ** 31)));
  const answer = {
    question: source.get("question"),
    panes,
    tensors: Object.fromEntries(names.map((name, i) => [name, tensors[i] as Tensor])),
  };
  return plansOf(answer, namesOf(source));
}
