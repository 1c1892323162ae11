// Which O is on show at a moment: the running one, a partial, or a merged one, beside float64's over the same keys.

import type { Numbers } from "@sglab/protocol";
import type { Recorded } from "./data";
import type { Strip } from "./output_view";
import type { Registers } from "./registers";
import type { Result } from "./results";
import type { Moment } from "./steps";

/** One scale for all that can be compared: a difference that is not seen there does not matter. */
export function stripsAt(
  recorded: Recorded,
  results: Result[],
  moment: Moment,
  now: Registers | undefined,
): Strip[] {
  const { label, normal, truth } = shown(recorded, results, moment, now);
  const difference = normal && truth && (normal.map((value, j) => value - (truth[j] as number)) as Numbers);
  return [
    { label: "O, not divided", values: now?.o, group: "sum" },
    { label, values: normal, group: "o" },
    { label: "float64, same keys", values: truth, group: "o" },
    { label: "error: their difference", values: difference, group: "o" },
  ];
}

interface Shown {
  label: string;
  normal?: Numbers | undefined;
  truth?: Numbers | undefined;
}

function shown(recorded: Recorded, results: Result[], moment: Moment, now: Registers | undefined): Shown {
  const result =
    moment.kind === "partial"
      ? results[moment.split]
      : moment.kind === "merge"
        ? results[recorded.splits + moment.index]
        : undefined;
  if (result) {
    const label = moment.kind === "partial" ? `O of partial s${moment.split}` : "O merged";
    return { label, normal: result.computed.o, truth: result.truth.o };
  }
  if (!now || now.done < 4 || now.total === 0) return { label: "O / d" };
  return {
    label: "O / d",
    normal: now.o.map((value) => value / now.total) as Numbers,
    truth: recorded.truth(now.step),
  };
}
