// Where moments come from: a session in Python that moves, or the moments that a saved page holds.

import type { Action, Look, MoveOptions, Options, Question, State } from "./protocol";

export interface Backend {
  readonly live: boolean;
  /** Positions that can be shown, ascending; undefined: all. */
  readonly positions?: number[];
  look(look: Look): Promise<State>;
  /** Starts a move; a state with a `job` wants `goOn` or `halt`. */
  go(action: Action, options: MoveOptions, look: Look): Promise<State>;
  goOn(look: Look): Promise<State>;
  halt(look: Look): Promise<State>;
  /** Any other command that answers with the present moment. */
  ask<Name extends Question>(command: Name, options: Options<Name>, look: Look): Promise<State>;
}
