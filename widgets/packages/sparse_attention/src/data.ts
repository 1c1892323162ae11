// One layer's dense probabilities and what each rule chose, as Python computed them.

import { markedText } from "@sglab/core";
import type { Numbers } from "@sglab/protocol";
import type { Rule, Shown, SparseSource } from "./protocol";

export interface Choice extends Rule {
  chosen: Numbers;
  errors: Numbers;
  masses: Numbers;
}

export interface Read {
  shown: Shown;
  texts: string[];
  budgets: number[];
  rules: Choice[];
  probabilities: Numbers;
}

/** A recorded layer's number in the model. */
export function layerNumber(shown: Shown, at: number): number {
  return shown.numbers?.[at] ?? at;
}

/** What of the picture is looked at. */
export interface Look {
  rule: number;
  step: number;
  head: number;
  query: number;
}

export async function readRun(source: SparseSource): Promise<Read> {
  const rules = source.get("rules");
  const all = 2 ** 31;
  const [probabilities, ...parts] = await Promise.all([
    source.slice("probabilities", 0, all),
    ...rules.flatMap(({ name }) => [
      source.slice(`${name}.chosen`, 0, all),
      source.slice(`${name}.error`, 0, all),
      source.slice(`${name}.mass`, 0, all),
    ]),
  ]);
  return {
    shown: source.get("shown"),
    texts: source.get("texts"),
    budgets: source.get("budgets"),
    probabilities: probabilities.data as Numbers,
    rules: rules.map((rule, i) => ({
      ...rule,
      chosen: parts[3 * i]?.data as Numbers,
      errors: parts[3 * i + 1]?.data as Numbers,
      masses: parts[3 * i + 2]?.data as Numbers,
    })),
  };
}

export function probability(
  { shown, probabilities }: Read,
  head: number,
  query: number,
  key: number,
): number {
  return probabilities[(head * shown.tokens + query) * shown.tokens + key] as number;
}

/** Whether a pair is chosen by the rule at the step looked at. */
export function isChosen(read: Read, look: Look, key: number, query = look.query): boolean {
  const { tokens } = read.shown;
  const bits = read.rules[look.rule]?.chosen[(look.head * tokens + query) * tokens + key] as number;
  return ((bits >> look.step) & 1) === 1;
}

/** Probability from which a key that was not chosen counts as missed. */
export const MISSED_FROM = 0.02;

export function isMissed(probability: number, chosen: boolean): boolean {
  return !chosen && probability >= MISSED_FROM;
}

/** The words for what a rule did with a key, the same wherever they stand. */
export function choiceName(probability: number, chosen: boolean): string {
  return chosen ? "chosen" : isMissed(probability, chosen) ? "missed" : "not chosen";
}

/** Error and mass of one query in one head. */
export function queryOutcome(read: Read, look: Look): { error: number; mass: number; keys: number } {
  const { heads, tokens } = read.shown;
  const rule = read.rules[look.rule] as Choice;
  const at = (look.step * heads + look.head) * tokens + look.query;
  let keys = 0;
  for (let key = 0; key <= look.query; key++) keys += Number(isChosen(read, look, key));
  return { error: rule.errors[at] as number, mass: rule.masses[at] as number, keys };
}

export interface Seen {
  key: number;
  probability: number;
  chosen: boolean;
}

/** Keys of a query, the most probable first. */
export function keysOf(read: Read, look: Look): Seen[] {
  return Array.from({ length: look.query + 1 }, (_, key) => ({
    key,
    probability: probability(read, look.head, look.query, key),
    chosen: isChosen(read, look, key),
  })).sort((a, b) => b.probability - a.probability || a.key - b.key);
}

/** What a query reads, on average: chosen rows of the pool and the rule's own index; dense: all rows. */
export function bytesOf(
  read: Read,
  rule: Rule,
  step: number,
): { sparse: number; index: number; dense: number } {
  const { shown } = read;
  return {
    sparse: (rule.rows[step] as number) * shown.rowBytes,
    index: rule.indexBytes,
    dense: ((shown.tokens + 1) / 2) * shown.rowBytes,
  };
}

/** A byte or a token as it is read: what cannot be seen gets signs. */
export function tokenName(texts: readonly string[], at: number): string {
  return markedText(texts[at] ?? "");
}

/** Some tokens as the text that they are of; where all there are is ids, these have spaces between them. */
export function plainText(texts: readonly string[], chosen: (at: number) => boolean): string {
  const apart = texts.every((text) => /^\d*$/.test(text)) ? " " : "";
  return texts.filter((_, at) => chosen(at)).join(apart);
}

/** A probability; one too small for its four digits is not none. */
export function likely(probability: number): string {
  return probability > 0 && probability < 0.00005 ? "<0.0001" : probability.toFixed(4);
}
