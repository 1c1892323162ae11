// A session in Python where there is one, else the saved moments.

import type { Requests } from "@sglab/protocol";
import type { Backend } from "./backend";
import type { CodeModel } from "./code_model";
import type {
  Action,
  DebuggerSource,
  KERNEL_DEBUGGER,
  Look,
  MoveOptions,
  Options,
  Question,
  State,
} from "./protocol";
import { SavedMoments } from "./saved";

export async function openBackend(source: DebuggerSource, code: CodeModel): Promise<Backend> {
  return source.live ? new LiveBackend(source) : SavedMoments.read(source, code);
}

class LiveBackend implements Backend {
  readonly live = true;

  constructor(private source: DebuggerSource) {}

  look(look: Look): Promise<State> {
    return this.source.call("look", { look });
  }

  go(action: Action, options: MoveOptions, look: Look): Promise<State> {
    return this.source.call("go", { action, look, ...options });
  }

  goOn(look: Look): Promise<State> {
    return this.source.call("go_on", { look });
  }

  halt(look: Look): Promise<State> {
    return this.source.call("halt", { look });
  }

  ask<Name extends Question>(command: Name, options: Options<Name>, look: Look): Promise<State> {
    return this.source.call(command, { look, ...options } as Requests<typeof KERNEL_DEBUGGER>[Name]);
  }
}
