// The transport of a session: its steps are requests, and its position is where the session says it is.

import { type Granularity, Transport } from "@sglab/core";
import type { Driver } from "./driver";
import type { Action, State } from "./protocol";

const GRANULARITIES: (Granularity & { forward: Action; back: Action })[] = [
  { id: "instruction", label: "instruction, any warp", forward: "step", back: "back" },
  { id: "warp", label: "instruction of the warp", forward: "warp", back: "warp_back" },
  { id: "line", label: "source line of the warp", forward: "line", back: "line_back" },
  { id: "event", label: "event, any warp", forward: "event", back: "event_back" },
];

export class SessionTransport extends Transport {
  #shown = "";
  #settling = false;

  constructor(private driver: () => Driver | undefined) {
    super();
  }

  override goTo(position: number): void {
    if (this.#settling) {
      super.goTo(position);
      return;
    }
    const { length } = this.track;
    const target = Math.max(0, Math.min(length, Math.round(position)));
    const driver = this.driver();
    if (!driver?.state || (target === this.position && !driver.working)) return;
    // what comes after the last known position is found by running
    if (target > driver.state.length || (target === length && !driver.state.complete)) driver.go("end");
    else driver.go("seek", { position: target });
  }

  override step(direction: 1 | -1, granularity: Granularity = this.granularity): void {
    const kind = GRANULARITIES.find(({ id }) => id === granularity.id) ?? GRANULARITIES[0];
    if (!kind || (this.playing && this.driver()?.working)) return; // playing waits for each step
    if (direction > 0 && this.driver()?.state?.over) return;
    this.driver()?.go(direction > 0 ? kind.forward : kind.back);
  }

  override stepSelection(direction: 1 | -1): void {
    this.driver()?.go(direction > 0 ? "warp_event" : "warp_event_back");
  }

  override play(): void {
    if (this.track.length > 0 && this.position >= this.track.length) this.goTo(0);
    else super.play();
  }

  /** Shows where the session is. */
  settle(state: State, sentence: string): void {
    // one position more than the last: that at which it fails, or that there may be more
    const length = state.length + (state.failure || !state.complete ? 1 : 0);
    const position = state.failed ? length : state.position;
    this.#settling = true;
    const shown = `${length} ${state.complete} ${state.failure?.position} ${state.findings?.length}`;
    this.#words = sentence;
    if (shown !== this.#shown) {
      const playing = this.playing;
      this.#shown = shown;
      this.load(
        {
          length,
          atLeast: !state.complete,
          granularities: GRANULARITIES,
          marks: marksOf(state),
          describe: () => this.#words,
        },
        position,
      );
      if (playing && position < length) super.play();
    } else if (position === this.position) this.refresh();
    else super.goTo(position);
    if (this.playing && (state.over || state.failed || state.stoppedBy)) this.pause();
    this.#settling = false;
  }

  #words = "";
}

function marksOf(state: State) {
  const findings = (state.findings ?? []).flatMap(({ at, message }) =>
    at ? [{ at: at.position, label: message }] : [],
  );
  const failure = state.failure
    ? [{ at: state.failure.position + 1, label: `fails: ${state.failure.kind}` }]
    : [];
  return [...findings, ...failure];
}
