// Routing as moments: token by token scores, bias, groups, choice, weights; then blocks, expert by expert.

import { format, type Track } from "@sglab/core";
import { choiceScore, choicesOf, keepsGroup, type Recorded } from "./data";
import { tokenName } from "./words";

export type Phase = "score" | "bias" | "groups" | "choose" | "weigh" | "blocks";

export interface Moment {
  phase: Phase;
  /** Of the pass; −1: all have been routed. */
  token: number;
  /** blocks: whose. */
  expert: number;
}

export interface Standing {
  now: Moment | undefined;
  /** Tokens that are routed. */
  routed: number;
  /** The token under way and how far it is. */
  token: number | undefined;
  phase: Phase | undefined;
  /** Blocks that are laid out. */
  blocks: number;
}

export function phasesOf({ rule }: Recorded): Phase[] {
  const phases: Phase[] = ["score"];
  if (rule.biased) phases.push("bias");
  if (rule.groups > 1) phases.push("groups");
  return [...phases, "choose", "weigh"];
}

/** Of a token those that have run. */
export function phasesRun(recorded: Recorded, { routed, token, phase }: Standing, of: number): Phase[] {
  const all = phasesOf(recorded);
  if (of < routed) return all;
  return of === token && phase ? all.slice(0, all.indexOf(phase) + 1) : [];
}

/** The token under way, or the last that is routed. */
export function lookedAt({ token, routed }: Standing): number {
  return token ?? Math.max(0, routed - 1);
}

export class Steps {
  readonly moments: Moment[] = [];
  /** Where each token's routing ends, then each expert's blocks. */
  readonly stops: number[] = [];
  readonly #blocksAfter: number[] = [];

  constructor(readonly recorded: Recorded) {
    const phases = phasesOf(recorded);
    recorded.tokens.forEach((_, token) => {
      for (const phase of phases) this.moments.push({ phase, token, expert: -1 });
      this.stops.push(this.moments.length);
    });
    const experts = [...new Set(recorded.blockExperts)];
    for (const expert of experts) {
      this.moments.push({ phase: "blocks", token: -1, expert });
      this.stops.push(this.moments.length);
      const until = recorded.blockExperts.lastIndexOf(expert) + 1;
      this.#blocksAfter.push(until);
    }
  }

  /** When all tokens are routed. */
  get routedAt(): number {
    return this.recorded.tokens.length * phasesOf(this.recorded).length;
  }

  standing(position: number): Standing {
    const now = this.moments[position - 1];
    const per = phasesOf(this.recorded).length;
    const count = this.recorded.tokens.length;
    if (position > this.routedAt) {
      const blocks = this.#blocksAfter[position - this.routedAt - 1] ?? 0;
      return { now, routed: count, token: undefined, phase: undefined, blocks };
    }
    return { now, routed: Math.floor(position / per), token: now?.token, phase: now?.phase, blocks: 0 };
  }

  track(selected: () => { token?: number | undefined; expert?: number | undefined }): Track {
    return {
      length: this.moments.length,
      granularities: [
        { id: "step", label: "step" },
        { id: "token", label: "token", stops: this.stops },
        { id: "part", label: "part", stops: [this.routedAt, this.moments.length] },
      ],
      marks: [{ at: this.routedAt, label: "all tokens routed" }],
      describe: (position) => this.describe(position),
      eventsOfSelection: () => this.#eventsOf(selected()),
    };
  }

  #eventsOf({
    token,
    expert,
  }: {
    token?: number | undefined;
    expert?: number | undefined;
  }): number[] | undefined {
    if (token === undefined && expert === undefined) return undefined;
    return this.moments.flatMap((moment, i) => {
      const takes = expert !== undefined && moment.phase === "choose" && this.#takes(moment.token, expert);
      return moment.token === token || moment.expert === expert || takes ? [i + 1] : [];
    });
  }

  #takes(token: number, expert: number): boolean {
    return choicesOf(this.recorded, token).some((choice) => choice.expert === expert);
  }

  describe(position: number): string {
    const moment = this.moments[position - 1];
    if (!moment) return "The router has not looked at any token yet.";
    const { recorded } = this;
    const { rule } = recorded;
    if (moment.phase === "blocks") return blocksSentence(recorded, moment.expert);
    const who = `${tokenName(recorded, moment.token)}: `;
    const choices = choicesOf(recorded, moment.token);
    switch (moment.phase) {
      case "score":
        return `${who}${rule.experts} logits become scores, the ${rule.scoring === "softmax" ? "softmax of all" : "sigmoid of each"}.`;
      case "bias":
        return `${who}the correction bias is added, for choosing alone.`;
      case "groups": {
        const kept = Array.from({ length: rule.groups }, (_, g) => g).filter((g) =>
          keepsGroup(recorded, moment.token, g),
        );
        const best =
          kept.length === 1 ? `group ${kept[0]} is the best` : `groups ${format.listed(kept)} are the best`;
        return `${who}${best} of ${rule.groups}; the experts of the others are out.`;
      }
      case "choose":
        return `${who}the best ${rule.topK} are ${choices.map(({ expert }) => `e${expert} (${choiceScore(recorded, moment.token, expert).toFixed(3)})`).join(", ")}.`;
      case "weigh":
        return `${who}weights ${choices.map(({ expert, weight }) => `e${expert} ${weight.toFixed(3)}`).join(", ")}: ${weighing(recorded)}.`;
    }
  }
}

function weighing({ rule }: Recorded): string {
  const named = rule.biased ? "scores without bias" : "scores";
  const scores = rule.renormalize ? `${named} over their sum` : named;
  return rule.scale === 1 ? scores : `${scores}, times ${rule.scale}`;
}

/** "Expert 3: 18 choices in 2 blocks of 16, 14 rows of padding." */
export function blocksSentence(
  { sorted, blockExperts, shown, tokens, rule }: Recorded,
  expert: number,
): string {
  const blocks = Array.from(blockExperts).filter((each) => each === expert).length;
  const first = blockExperts.indexOf(expert) * shown.block;
  const rows = Array.from(sorted.subarray(first, first + blocks * shown.block));
  const real = rows.filter((choice) => choice < tokens.length * rule.topK).length;
  const whose = expert < 0 ? "Experts that are elsewhere" : `Expert ${expert}`;
  return `${whose}: ${format.plural(real, "choice")} in ${format.plural(blocks, "block")} of ${shown.block}, ${format.plural(rows.length - real, "row")} of padding.`;
}
