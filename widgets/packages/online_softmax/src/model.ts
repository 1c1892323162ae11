// What is shown: the recording, the choices, the merges by hand, what partials hold; and how each of them changes.

import type { Transport } from "@sglab/core";
import type { Choices, Held } from "./choices";
import type { Recorded } from "./data";
import { type Partial as Merged, type Plan, planOf, relativeError, roots } from "./merge";
import type { Place } from "./protocol";
import { exactWhole, type Result, resultsOf } from "./results";
import { PHASES, type Steps, stepsOf } from "./steps";

export class Model {
  readonly choices: Choices = { formula: "online", rule: "v2_guarded", order: "fold", base: "e" };
  recorded: Recorded | undefined;
  steps: Steps | undefined;
  results: Result[] = [];
  plan: Plan = [];
  /** By hand: the first of two nodes to merge. */
  armed: number | undefined;
  held = new Map<number, Held>();
  /** The float64 answer over what the partials cover, and the error of the kernel's own output. */
  whole: Merged | undefined;
  kernelError = Number.NaN;
  /** Counts what changes the tree besides the moment. */
  turn = 0;

  constructor(
    private transport: Transport,
    private selectedSplit: () => number | undefined,
    /** Everything follows from what has changed. */
    private changed: () => void,
  ) {}

  load(read: Recorded): void {
    const before = this.recorded;
    const atEnd = before && this.transport.position === this.transport.track.length;
    this.recorded = read;
    if (before?.splits !== read.splits || before.question.request !== read.question.request) {
      this.held.clear();
      this.plan = planOf(this.choices.order, read.splits);
    }
    this.#restate();
    if (atEnd) this.transport.goTo(this.transport.track.length);
    if (before) return;
    this.transport.setGranularity("tile");
    this.transport.goTo(PHASES.length);
  }

  choose(change: Partial<Choices>): void {
    Object.assign(this.choices, change);
    this.armed = undefined;
    const splits = this.recorded?.splits ?? 0;
    if (change.order) this.plan = planOf(this.choices.order, splits);
    this.#restate();
    if (change.order === "hand") this.transport.goTo(this.steps?.endOfSplit(splits - 1) ?? 0);
    else if (change.order) this.transport.goTo(this.transport.track.length);
  }

  hold(split: number, what: Held): void {
    if (what === "kernel") this.held.delete(split);
    else this.held.set(split, what);
    this.#restate();
  }

  /** Nodes that no merge takes. */
  get open(): number[] {
    return roots(this.plan, this.recorded?.splits ?? 0);
  }

  /** Whether pressing this node takes part in a merge by hand. */
  joins(node: number): boolean {
    return this.choices.order === "hand" && this.open.includes(node);
  }

  /** By hand: the first press arms a node, the second merges the two. */
  join(node: number): void {
    const first = this.armed;
    this.armed = first === undefined ? node : undefined;
    if (first === undefined || first === node) {
      this.changed();
      return;
    }
    this.plan = [...this.plan, [first, node]];
    this.#restate();
    this.transport.goTo(this.transport.track.length);
  }

  undo(): void {
    if (this.choices.order !== "hand" || this.plan.length === 0) return;
    this.plan = this.plan.slice(0, -1);
    this.armed = undefined;
    this.#restate();
  }

  /** The choices, merges, partials and moment of now. */
  get place(): Place {
    const { plan, choices, held, transport } = this;
    const splits = this.recorded?.splits ?? 0;
    return { position: transport.position, splits, choices: { ...choices }, plan, held: [...held] };
  }

  /** Leads back to a place; of a run with other splits, to its choices and moment. */
  goTo({ position, splits, choices, plan, held }: Place): void {
    Object.assign(this.choices, choices);
    this.armed = undefined;
    const now = this.recorded?.splits ?? 0;
    this.plan = now === splits ? plan : planOf(choices.order, now);
    if (now === splits) this.held = new Map(held);
    this.#restate();
    this.transport.goTo(position);
  }

  wayBack(): () => void {
    const { place } = this;
    return () => this.goTo(place);
  }

  endOf(node: number): number {
    const { recorded, steps } = this;
    if (!recorded || !steps) return Number.POSITIVE_INFINITY;
    return node < recorded.splits ? steps.endOfSplit(node) : steps.endOfMerge(node - recorded.splits);
  }

  /** The one result, when everything is merged and the transport is there. */
  get final(): Result | undefined {
    const [root, ...others] = this.open;
    const there = this.transport.position === this.transport.track.length;
    return others.length === 0 && there ? this.results[root as number] : undefined;
  }

  #restate(): void {
    const { recorded, plan, selectedSplit } = this;
    if (!recorded) return;
    const { formula, rule, base } = this.choices;
    this.turn += 1;
    this.whole = exactWhole(recorded, this.held);
    this.kernelError = relativeError(recorded.kernelO, exactWhole(recorded, new Map()).o);
    this.results = resultsOf(recorded, formula, rule, plan, this.held);
    const lseOf = (split: number) => this.results[split]?.computed.lse ?? Number.NaN;
    this.steps = stepsOf({ recorded, formula, plan, base, selectedSplit, lseOf });
    this.transport.load(this.steps.track);
    this.changed();
  }
}
