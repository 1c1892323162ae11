// The session as the widget sees it: one question at a time, the newest wish waits, what comes back is shown.

import { Emitter } from "@sglab/core";
import type { Backend, Options } from "./backend";
import type { Action, Look, State } from "./protocol";

interface Wish {
  command: "go" | "look" | string;
  action?: Action;
  options: Options;
  /** Takes its error, where the asker wants to show it. */
  failed?: (error: unknown) => void;
}

export class Driver {
  /** A moment has come. */
  readonly changed = new Emitter<State>();
  readonly failed = new Emitter<unknown>();
  /** Whether a question is open. */
  readonly busy = new Emitter<boolean>();
  look: Look = {};
  state: State | undefined;
  /** Milliseconds from the last wish to its moment. */
  latency = 0;
  #working = false;
  #halting = false;
  #waiting: Wish | undefined;

  constructor(readonly backend: Backend) {}

  get working(): boolean {
    return this.#working;
  }

  go(action: Action, options: Options = {}): void {
    void this.#work({ command: "go", action, options });
  }

  refresh(): void {
    void this.#work({ command: "look", options: {} });
  }

  ask(command: string, options: Options, failed?: (error: unknown) => void): Promise<void> {
    return this.#work({ command, options, failed });
  }

  /** Ends the move under way. */
  halt(): void {
    if (this.state?.job) this.#halting = true;
  }

  async #work(wish: Wish): Promise<void> {
    if (this.#working) {
      // edits must not be lost to a later step
      if (wish.command !== "go" && wish.command !== "look") {
        await new Promise<void>((done) => {
          const off = this.busy.on((busy) => {
            if (busy) return;
            off();
            done();
          });
        });
        return this.#work(wish);
      }
      if (wish.command === "go" || !this.#waiting) this.#waiting = wish;
      return;
    }
    this.#working = true;
    this.busy.emit(true);
    try {
      await this.#ask(wish);
    } catch (error) {
      if (wish.failed) wish.failed(error);
      else this.failed.emit(error);
    }
    this.#working = false;
    const next = this.#waiting;
    this.#waiting = undefined;
    this.busy.emit(false);
    if (next) void this.#work(next);
  }

  async #ask({ command, action, options }: Wish): Promise<void> {
    const begin = performance.now();
    const { backend } = this;
    let state: State;
    if (command === "go") state = await backend.go(action as Action, options, this.look);
    else if (command === "look") state = await backend.look(this.look);
    else state = await backend.ask(command, options, this.look);
    this.latency = performance.now() - begin;
    this.#show(state);
    while (state.job) {
      state = this.#halting ? await backend.halt(this.look) : await backend.goOn(this.look);
      this.#show(state);
    }
    this.#halting = false;
  }

  #show(state: State): void {
    this.state = state;
    this.changed.emit(state);
  }
}
