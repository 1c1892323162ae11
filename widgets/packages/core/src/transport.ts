// The stepper every widget shares. Positions run from 0 (nothing has happened) to `length` (everything has).

import { Emitter } from "./emitter";
import type { KeyBinding } from "./keys";

/** A step size: `stops` are the positions one can stop at, ascending; without them, every position. */
export interface Granularity {
  id: string;
  label: string;
  stops?: ArrayLike<number>;
}

export interface Mark {
  at: number;
  label: string;
}

/** Where to move, for a track whose positions another party has to reach. */
export type Motion =
  | { kind: "to"; position: number }
  | { kind: "end" }
  | { kind: "step"; direction: 1 | -1; granularity: string; count: number }
  | { kind: "selection"; direction: 1 | -1 };

/** Where a motion has led; `length` and `open` where they have become known. */
export interface Arrival {
  position: number;
  length?: number;
  open?: boolean;
}

export interface Track {
  length: number;
  /** The end is not known yet: `length` is the furthest position reached so far. */
  open?: boolean;
  /** There may be more than `length`. */
  atLeast?: boolean;
  /** Finest first; [ and ] move by the next coarser one. */
  granularities: Granularity[];
  marks?: Mark[];
  /** What just happened on the way to `position`, as a sentence that a screen reader speaks. */
  describe: (position: number) => string;
  /** The position in the words of the picture, whose numbers begin at 0 such as an engine's steps; else "step 3 of 9". */
  name?: (position: number) => string;
  /** The time at a position with its unit, where the trace has one. */
  time?: (position: number) => string;
  /** The moments that touch the current selection, ascending. */
  eventsOfSelection?: () => ArrayLike<number> | undefined;
  /**
   * Moves what the picture shows, such as a live session in Python; without it, moving is only looking elsewhere.
   * One motion at a time: what is requested meanwhile follows when it has arrived, equal steps added up.
   */
  move?: (motion: Motion) => Promise<Arrival>;
}

const NOTHING: Track = { length: 0, granularities: [{ id: "step", label: "step" }], describe: () => "" };

/** Steps per second that the speed menu offers. */
export const SPEEDS = [1, 2, 5, 20, 60];

export class Transport {
  readonly changed = new Emitter<void>();
  /** A motion failed; the position is where it was. */
  readonly failed = new Emitter<unknown>();
  #track = NOTHING;
  #moving = false;
  #next: Motion | undefined;
  #position = 0;
  #granularity = "";
  #speed = 2;
  #timer: ReturnType<typeof setInterval> | undefined;

  /** Shows another run. The position stays where it can. */
  load(track: Track, position = this.#position): void {
    this.pause();
    this.#track = track;
    this.#moving = false;
    this.#next = undefined;
    if (!track.granularities.some((each) => each.id === this.#granularity))
      this.#granularity = track.granularities[0]?.id ?? "step";
    this.#position = clamp(position, 0, track.length);
    this.changed.emit();
  }

  /** Announces everything again: what `describe` says has become known. */
  refresh(): void {
    this.changed.emit();
  }

  get track(): Track {
    return this.#track;
  }

  get position(): number {
    return this.#position;
  }

  /** Where the last step at the current granularity began: what is between it and `position` just happened. */
  get previous(): number {
    return neighbour(this.granularity.stops, this.#position, -1, this.#track.length);
  }

  get granularity(): Granularity {
    const { granularities } = this.#track;
    return granularities.find((each) => each.id === this.#granularity) ?? (granularities[0] as Granularity);
  }

  setGranularity(id: string): void {
    this.#granularity = id;
    this.changed.emit();
  }

  get speed(): number {
    return this.#speed;
  }

  setSpeed(stepsPerSecond: number): void {
    this.#speed = stepsPerSecond;
    if (this.playing) this.#run();
    this.changed.emit();
  }

  get playing(): boolean {
    return this.#timer !== undefined;
  }

  /** Whether a motion is under way. */
  get moving(): boolean {
    return this.#moving;
  }

  goTo(position: number): void {
    if (this.#track.move) {
      const beyond = position >= this.#track.length && this.#track.open;
      this.#ask(beyond ? { kind: "end" } : { kind: "to", position: Math.max(0, Math.round(position)) });
    } else this.#arrive(position);
  }

  #arrive(position: number): void {
    const next = clamp(Math.round(position), 0, this.#track.length);
    if (next === this.#position) return;
    this.#position = next;
    this.changed.emit();
  }

  #ask(motion: Motion): void {
    const { move } = this.#track;
    if (this.#moving) this.#next = added(this.#next, motion);
    else if (move) void this.#follow(move(motion));
  }

  async #follow(motion: Promise<Arrival>): Promise<void> {
    const track = this.#track;
    this.#moving = true;
    this.changed.emit();
    try {
      const { position, length = track.length, open = track.open } = await motion;
      if (track !== this.#track) return; // another run is shown
      track.length = Math.max(length, position);
      track.open = open ?? false;
      this.#position = position;
    } catch (error) {
      if (track !== this.#track) return;
      this.#next = undefined;
      this.pause();
      this.failed.emit(error);
    }
    this.#moving = false;
    const next = this.#next;
    this.#next = undefined;
    this.changed.emit();
    if (next) this.#ask(next);
  }

  step(direction: 1 | -1, granularity = this.granularity): void {
    if (this.#track.move) this.#ask({ kind: "step", direction, granularity: granularity.id, count: 1 });
    else this.goTo(neighbour(granularity.stops, this.#position, direction, this.#track.length));
  }

  stepCoarse(direction: 1 | -1): void {
    const { granularities } = this.#track;
    const here = granularities.indexOf(this.granularity);
    const coarser = granularities[Math.min(here + 1, granularities.length - 1)];
    if (coarser) this.step(direction, coarser);
  }

  stepSelection(direction: 1 | -1): void {
    if (this.#track.move) {
      this.#ask({ kind: "selection", direction });
      return;
    }
    const events = this.#track.eventsOfSelection?.();
    if (!events?.length) return;
    const beyond = direction > 0 ? firstAbove(events, this.#position) : lastBelow(events, this.#position);
    if (beyond !== undefined) this.goTo(beyond);
  }

  play(): void {
    const { length, open } = this.#track;
    if (length === 0 && !open) return;
    if (this.#position >= length && !open) this.goTo(0);
    this.#run();
    this.changed.emit();
  }

  #run(): void {
    clearInterval(this.#timer);
    this.#timer = setInterval(() => {
      if (this.#moving) return;
      if (this.#position >= this.#track.length && !this.#track.open) this.pause();
      else this.step(1);
    }, 1000 / this.#speed);
  }

  pause(): void {
    if (!this.playing) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.changed.emit();
  }

  toggle(): void {
    if (this.playing) this.pause();
    else this.play();
  }

  dispose(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#track = NOTHING;
  }

  /** The part of the common key map that moves in time. */
  keys(): KeyBinding[] {
    return [
      { keys: [" "], label: "play or pause", run: () => this.toggle() },
      { keys: ["ArrowLeft"], label: "step back", run: () => this.step(-1) },
      { keys: ["ArrowRight"], label: "step forward", run: () => this.step(1) },
      ...(this.#track.move || this.#track.eventsOfSelection ? this.#selectionKeys() : []),
      { keys: ["["], label: "one coarser step back", run: () => this.stepCoarse(-1) },
      { keys: ["]"], label: "one coarser step forward", run: () => this.stepCoarse(1) },
      { keys: ["Home"], label: "to the beginning", run: () => this.goTo(0) },
      { keys: ["End"], label: "to the end", run: () => this.goTo(this.#track.length) },
    ];
  }

  #selectionKeys(): KeyBinding[] {
    const step = (direction: 1 | -1) => () => this.stepSelection(direction);
    return [
      { keys: ["Shift+ArrowLeft"], label: "previous event of the selection", run: step(-1) },
      { keys: ["Shift+ArrowRight"], label: "next event of the selection", run: step(1) },
    ];
  }
}

/** What to do with a waiting motion and a later one: the later one, equal steps added up. */
function added(waiting: Motion | undefined, motion: Motion): Motion {
  const both = waiting?.kind === "step" && motion.kind === "step";
  if (!both || waiting.direction !== motion.direction || waiting.granularity !== motion.granularity)
    return motion;
  return { ...motion, count: waiting.count + motion.count };
}

function clamp(value: number, low: number, high: number): number {
  return Math.max(low, Math.min(high, value));
}

function neighbour(
  stops: ArrayLike<number> | undefined,
  position: number,
  direction: 1 | -1,
  length: number,
): number {
  if (!stops) return clamp(position + direction, 0, length);
  if (direction > 0) return firstAbove(stops, position) ?? length;
  return lastBelow(stops, position) ?? 0;
}

/** How many entries of an ascending list are at most `value`. */
export function countUpTo(sorted: ArrayLike<number>, value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as number) <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function firstAbove(sorted: ArrayLike<number>, value: number): number | undefined {
  return sorted[countUpTo(sorted, value)];
}

function lastBelow(sorted: ArrayLike<number>, value: number): number | undefined {
  return sorted[countUpTo(sorted, value - 1) - 1];
}
