// Where moments come from: a session in Python that moves, or the moments that a saved page holds.

import type { Source } from "../core";
import type { CodeModel } from "./code_model";
import type { Action, Look, State } from "./protocol";
import { SavedMoments } from "./saved";

export type Options = Record<string, unknown>;

export interface Backend {
  readonly live: boolean;
  /** Positions that can be shown, ascending; undefined: all. */
  readonly positions?: number[];
  look(look: Look): Promise<State>;
  /** Starts a move; a state with a `job` wants `goOn` or `halt`. */
  go(action: Action, options: Options, look: Look): Promise<State>;
  goOn(look: Look): Promise<State>;
  halt(look: Look): Promise<State>;
  /** Any other command that answers with the present moment. */
  ask(command: string, options: Options, look: Look): Promise<State>;
}

export async function openBackend(source: Source, code: CodeModel): Promise<Backend> {
  return source.live ? new LiveBackend(source) : SavedMoments.read(source, code);
}

class LiveBackend implements Backend {
  readonly live = true;

  constructor(private source: Source) {}

  look(look: Look): Promise<State> {
    return this.source.call("look", { look });
  }

  go(action: Action, options: Options, look: Look): Promise<State> {
    return this.source.call("go", { action, look, ...options });
  }

  goOn(look: Look): Promise<State> {
    return this.source.call("go_on", { look });
  }

  halt(look: Look): Promise<State> {
    return this.source.call("halt", { look });
  }

  ask(command: string, options: Options, look: Look): Promise<State> {
    return this.source.call(command, { look, ...options });
  }
}
