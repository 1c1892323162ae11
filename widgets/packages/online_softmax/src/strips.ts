// Which O is on show at a moment: the running one, a partial, or a merged one, always beside the float64 answer.

import type { Numbers } from "@sglab/protocol";
import type { Recorded } from "./data";
import type { Strip } from "./output_view";
import type { Registers } from "./registers";
import type { Result } from "./results";
import type { Moment } from "./steps";

export function stripsAt(
  recorded: Recorded,
  results: Result[],
  moment: Moment,
  now: Registers | undefined,
  whole: Numbers,
): Strip[] {
  const [label, normal] = shown(recorded, results, moment, now);
  const difference = normal?.map((value, j) => value - (whole[j] as number)) as Numbers | undefined;
  return [
    { label: "O, not divided", values: now?.o, group: "sum" },
    { label, values: normal, group: "o" },
    { label: "float64, all keys", values: whole, group: "o" },
    { label: "difference of both", values: difference, group: "difference" },
  ];
}

function shown(
  recorded: Recorded,
  results: Result[],
  moment: Moment,
  now: Registers | undefined,
): [string, Numbers | undefined] {
  if (moment.kind === "partial") return [`O of partial s${moment.split}`, results[moment.split]?.computed.o];
  if (moment.kind === "merge") return ["O merged", results[recorded.splits + moment.index]?.computed.o];
  if (!now || now.total === 0) return ["O / d", undefined];
  return ["O / d", now.o.map((value) => value / now.total) as Numbers];
}
