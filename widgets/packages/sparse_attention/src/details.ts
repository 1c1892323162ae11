// The rule, what it saves and costs, and the selected query's keys.

import { format, h } from "@sglab/core";
import { definitions, note, table, title } from "@sglab/engine/parts";
import { percent } from "./chart";
import {
  bytesOf,
  type Choice,
  choiceName,
  isMissed,
  keysOf,
  type Look,
  likely,
  MISSED_FROM,
  queryOutcome,
  type Read,
  tokenName,
} from "./data";

const LISTED = 12;

export function ruleDetails(read: Read, look: Look): HTMLElement[] {
  const rule = read.rules[look.rule] as Choice;
  const { sparse, index, dense } = bytesOf(read, rule, look.step);
  const flops = (value: number) => `${format.count(Math.round(value / 1000))} kFLOP`;
  return [
    h("div", { class: "sg-heading" }, rule.title),
    note(`${rule.about[0]?.toUpperCase()}${rule.about.slice(1)}.`),
    definitions([
      ["source", rule.source],
      ["budget", format.plural(read.budgets[look.step] as number, "key")],
      [
        "chosen",
        `${(rule.keys[look.step] as number).toFixed(1)} keys per query, ${format.percent(rule.mass[look.step] as number)} of the probability`,
      ],
      [
        "error",
        `${percent(rule.error[look.step] as number)} of the output, root mean square over heads and queries`,
      ],
    ]),
    title("Read per query, mean"),
    table(
      ["rows and index", "bytes"],
      [
        ["dense: all rows", format.bytes(dense)],
        ["chosen rows, of all heads", format.bytes(sparse)],
        ["to choose them", format.bytes(index)],
        ["sparse of dense", format.percent((sparse + index) / dense)],
      ],
      "Bytes per query",
    ),
    note(`Choosing multiplies ${flops(rule.indexFlops)} per query. Counted, of one layer.`),
  ];
}

export function queryDetails(read: Read, look: Look): HTMLElement[] {
  const { error, mass, keys } = queryOutcome(read, look);
  const seen = keysOf(read, look);
  const out = seen.filter(({ chosen }) => !chosen);
  const missed = out.filter((each) => isMissed(each.probability, each.chosen)).length;
  const rows = seen
    .slice(0, LISTED)
    .map(({ key, probability, chosen }) => [
      `“${tokenName(read.texts, key)}” ${key}`,
      likely(probability),
      `${chosen ? "✓" : isMissed(probability, chosen) ? "✕" : "–"} ${choiceName(probability, chosen)}`,
    ]);
  return [
    h(
      "div",
      { class: "sg-heading" },
      `Query “${tokenName(read.texts, look.query)}” (${look.query}), head ${look.head}`,
    ),
    definitions([
      ["chosen", `${format.count(keys)} of ${format.plural(look.query + 1, "key")}`],
      ["their mass", format.percent(mass)],
      ["error", percent(error)],
      [`missed (${MISSED_FROM} or more)`, format.plural(missed, "key")],
      [
        "best not chosen",
        out[0]
          ? `“${tokenName(read.texts, out[0].key)}” ${out[0].key}, ${likely(out[0].probability)}`
          : "none",
      ],
    ]),
    table(["key", "probability", "choice"], rows, "Keys of the query"),
  ];
}
