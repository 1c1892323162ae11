// A session in Python where there is one, else the saved moments.

import type { Source } from "@sglab/core";
import type { Backend, Options } from "./backend";
import type { CodeModel } from "./code_model";
import type { Action, Look, State } from "./protocol";
import { SavedMoments } from "./saved";

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
