// The session as the widget sees it: one question at a time, the newest request waits, what comes back is shown.

import { Emitter } from "@sglab/core";
import type { Selection } from "@sglab/protocol";
import type { Backend } from "./backend";
import type { Action, Look, MoveOptions, Options, Question, State } from "./protocol";

interface Wish {
  kind: "go" | "look" | "ask";
  send: (look: Look) => Promise<State>;
  /** Takes its error, where the asker wants to show it. */
  failed?: (error: unknown) => void;
  /** Whether this moment is what it is for: then it need not be sent. */
  met?: (state: State) => boolean;
}

export class Driver {
  /** A moment has come. */
  readonly changed = new Emitter<State>();
  readonly failed = new Emitter<unknown>();
  /** Whether a question is open. */
  readonly busy = new Emitter<boolean>();
  look: Look = {};
  /** What is selected where a moment is: it crosses with a move, which selects another moment. */
  selected: Selection | undefined;
  /** What has crossed with the last move. */
  sent: Selection | undefined;
  state: State | undefined;
  /** Milliseconds from the last wish to its moment. */
  latency = 0;
  #working = false;
  #halting = false;
  #waiting: Wish | undefined;
  /** The look of the last question. */
  #looked: Look = {};
  /** How often the session has moved, by news that no look has answered yet. */
  #news: number | undefined;

  constructor(readonly backend: Backend) {}

  get working(): boolean {
    return this.#working;
  }

  go(action: Action, options: MoveOptions = {}): void {
    const send = (look: Look) => {
      const { selected } = this;
      this.sent = selected;
      return this.backend.go(action, selected ? { ...options, selected } : options, look);
    };
    void this.#work({ kind: "go", send });
  }

  /**
   * Goes where another widget has gone, most often with this session: then the answer to the question that its move has
   * led to shows it.
   */
  followTo(position: number): void {
    const send = (look: Look) => this.backend.go("seek", { position }, look);
    const met = (state: State) => state.position === position && sameLook(this.#looked, this.look);
    void this.#work({ kind: "go", send, met });
  }

  refresh(): void {
    void this.#work({ kind: "look", send: (look) => this.backend.look(look) });
  }

  /** Python moved the session, or another view of it did; it has moved this often. Looks at it, unless that was shown. */
  follow(moved: number): void {
    this.#news = moved;
    this.#catchUp();
  }

  /** While a question is open, news wait: its answer may have been given before them and arrive with them. */
  #catchUp(): void {
    if (this.#working || this.#news === undefined) return;
    const isNew = this.state === undefined || this.state.moved < this.#news;
    this.#news = undefined;
    if (isNew) this.refresh();
  }

  ask<Name extends Question>(
    command: Name,
    options: Options<Name>,
    failed?: (error: unknown) => void,
  ): Promise<void> {
    return this.#work({ kind: "ask", send: (look) => this.backend.ask(command, options, look), failed });
  }

  /** Ends the move under way. */
  halt(): void {
    if (this.#working && this.state?.job) this.#halting = true;
  }

  async #work(wish: Wish): Promise<void> {
    if (this.#working) {
      // edits must not be lost to a later step
      if (wish.kind === "ask") {
        await new Promise<void>((done) => {
          const off = this.busy.on((busy) => {
            if (busy) return;
            off();
            done();
          });
        });
        return this.#work(wish);
      }
      if (wish.kind === "go" || !this.#waiting) this.#waiting = wish;
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
    this.#halting = false; // also where the move failed: the next one is another
    const next = this.#waiting;
    this.#waiting = undefined;
    this.busy.emit(false);
    if (next && !(this.state && next.met?.(this.state))) void this.#work(next);
    else this.#catchUp();
  }

  async #ask({ send }: Wish): Promise<void> {
    const begin = performance.now();
    const { backend } = this;
    this.#looked = { ...this.look };
    let state = await send(this.look);
    this.latency = performance.now() - begin;
    this.#show(state);
    while (state.job) {
      state = this.#halting ? await backend.halt(this.look) : await backend.goOn(this.look);
      this.#show(state);
    }
  }

  #show(state: State): void {
    this.state = state;
    this.changed.emit(state);
  }
}

function sameLook(a: Look, b: Look): boolean {
  return a.cta === b.cta && a.warp === b.warp && (a.group ?? 0) === (b.group ?? 0);
}
