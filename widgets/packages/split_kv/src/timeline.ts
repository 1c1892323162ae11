// The steps of the shown plans: every modelled moment at which a work unit starts or ends, and the rounds.

import { countUpTo, format, type Track } from "@sglab/core";
import type { Plans, Work } from "./data";

export interface Timeline {
  /** Moments in KV tokens, ascending, from 0; position p of the transport is at moments[p - 1]. */
  moments: Float64Array;
  track: Track;
  /** The moment of a position: -1 before the launch. */
  momentOf(position: number): number;
}

const NO_PLAN =
  "None of the plans shown can be drawn: each pane says why. “all” shows the planners for these heads.";
const SPOKEN = 2; // plans that one sentence can describe

/** `focused` is the pane that the sentence is about when there are many. */
export function timelineOf(
  plans: Plans,
  selectedRequest: () => number | undefined,
  focused: () => number,
): Timeline {
  const works = plans.shown.map(({ work }) => work).filter((work) => work !== null);
  const moments = sortedUnique(works.flatMap((work) => [work.start, work.end]));
  const momentOf = (position: number) => (position > 0 ? (moments[position - 1] as number) : -1);
  const positionOf = (moment: number) => countUpTo(moments, moment);
  const counts = plans.shown
    .filter(({ work }) => work !== null)
    .map(({ pane, work }) => ({
      pane,
      starts: sorted((work as Work).start),
      ends: sorted((work as Work).end),
      rounds: roundStarts(work as Work),
    }));

  const rounds = sortedUnique(counts.map((each) => each.rounds));
  const marks = Array.from(rounds, (moment) => ({ at: positionOf(moment), label: roundsAt(moment) }));

  /** "round 2 begins", of all plans, or "round 2 begins: TRT-LLM" of some. */
  function roundsAt(moment: number): string {
    const begun = counts.flatMap(({ pane, rounds }) => {
      const round = rounds.indexOf(moment);
      return round < 0 ? [] : [{ title: pane.title, round }];
    });
    const first = begun[0]?.round ?? 0;
    if (begun.length === counts.length && begun.every(({ round }) => round === first))
      return `round ${first + 1} begins`;
    return begun.map(({ title, round }) => `round ${round + 1} begins: ${title}`).join("; ");
  }

  const describe = (position: number): string => {
    if (counts.length === 0) return NO_PLAN;
    if (position === 0) return "Nothing is launched yet.";
    const moment = momentOf(position);
    const name = plans.shown[focused()]?.pane.name;
    const spoken = counts.length > SPOKEN ? counts.filter(({ pane }) => pane.name === name) : counts;
    return spoken
      .map(({ pane, starts, ends }) => {
        const done = countUpTo(ends, moment);
        const running = countUpTo(starts, moment) - done;
        return `${pane.title}: ${format.count(running)} running, ${format.count(done)} of ${format.plural(ends.length, "work unit")} done.`;
      })
      .join(" ");
  };
  const eventsOfSelection = (): Float64Array | undefined => {
    const request = selectedRequest();
    if (request === undefined) return undefined;
    const starts = works.map((work) => work.start.filter((_, i) => work.request[i] === request));
    return sortedUnique(starts).map(positionOf);
  };
  return {
    moments,
    momentOf,
    track: {
      length: moments.length,
      granularities: [
        { id: "event", label: "start or end" },
        { id: "round", label: "round", stops: Array.from(rounds, positionOf) },
      ],
      marks,
      describe,
      ...(counts.length === 0
        ? { name: () => "no plan" }
        : {
            time: (position) =>
              position > 0 ? format.plural(momentOf(position), "KV token") : "before launch",
          }),
      eventsOfSelection,
    },
  };
}

/**
 * When the n-th work unit of a slot first starts anywhere. Not a wave of the launch, which the totals count: CTAs without
 * work take part in those, and a persistent CTA does several units.
 */
function roundStarts(work: Work): Float64Array {
  const first: number[] = [];
  for (let i = 0; i < work.size; i++) {
    const round = work.wave[i] as number;
    const start = work.start[i] as number;
    first[round] = Math.min(first[round] ?? Number.POSITIVE_INFINITY, start);
  }
  return Float64Array.from(first);
}

function sorted(values: ArrayLike<number>): Float64Array {
  return Float64Array.from(values).sort();
}

function sortedUnique(columns: ArrayLike<number>[]): Float64Array {
  const all = new Float64Array(columns.reduce((size, column) => size + column.length, 0));
  let at = 0;
  for (const column of columns) {
    all.set(column, at);
    at += column.length;
  }
  all.sort();
  return all.filter((value, i) => i === 0 || value !== all[i - 1]);
}
