// Commands to Python and their answers, matched by id, over anywidget's custom messages.
// Python never speaks first this way: a message sent before a widget is shown would be lost. News travels as traits.

import type { AnyModel } from "@anywidget/types";
import {
  type AnswerMessage,
  type CallMessage,
  type Connection,
  decodeTensor,
  isWireTensor,
} from "@sglab/protocol";
import { uniqueId } from "./dom";
import { Emitter } from "./emitter";

/** An error that Python raised while it ran a command. */
export class PythonError extends Error {
  constructor(
    readonly type: string,
    message: string,
  ) {
    super(message);
  }
}

interface Pending {
  resolve: (value: unknown) => void;
  reject: (reason: unknown) => void;
}

const PATIENCE_MS = 4000;
const RAREST_MS = 60_000;
export const DISCONNECTED =
  "Disconnected: the Python kernel was restarted or stopped. What was loaded stays; to continue, run the cells again from the top, or the command that opened this page.";

export class Channel {
  readonly connectionChanged = new Emitter<Connection>();
  #connection: Connection = "live";
  #pending = new Map<string, Pending>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #patience = PATIENCE_MS;

  constructor(private model: AnyModel) {
    model.on("msg:custom", this.#receive);
    // Jupyter's manager raises these two when a kernel restarts or dies; other hosts never do.
    model.on("comm_live_update", this.#lose);
    model.on("comm:close", this.#lose);
  }

  get connection(): Connection {
    return this.#connection;
  }

  call(command: string, args: object): Promise<unknown> {
    if (this.#connection === "lost") return Promise.reject(new Error(DISCONNECTED));
    const id = uniqueId("call");
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      this.#timer ??= setTimeout(this.#wait, PATIENCE_MS);
      try {
        this.model.send({ kind: "sglab:call", id, command, args } satisfies CallMessage);
      } catch {
        this.#lose(); // the host has closed the connection without a word: nothing can be sent any more
      }
    });
  }

  #receive = (message: AnswerMessage, buffers: DataView[]): void => {
    if (message?.kind !== "sglab:answer") return;
    const pending = this.#pending.get(message.id);
    if (!pending) return;
    this.#pending.delete(message.id);
    this.#rest();
    if (message.error) {
      pending.reject(new PythonError(message.error.type, message.error.message));
      return;
    }
    try {
      pending.resolve(unpack(message.value, buffers));
    } catch (error) {
      pending.reject(error);
    }
  };

  /** An answer came: the kernel is alive; keep waiting only for what is still open. */
  #rest(): void {
    clearTimeout(this.#timer);
    this.#timer = this.#pending.size ? setTimeout(this.#wait, PATIENCE_MS) : undefined;
    this.#patience = PATIENCE_MS;
    this.#become("live");
  }

  #lose = (): void => {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#become("lost");
    for (const { reject } of this.#pending.values()) reject(new Error(DISCONNECTED));
    this.#pending.clear();
  };

  /** A kernel that was shut down says nothing: what is sent now and then finds out. Python does not answer a knock. */
  #wait = (): void => {
    this.#become("waiting");
    this.#timer = setTimeout(this.#wait, this.#patience);
    this.#patience = Math.min(RAREST_MS, 2 * this.#patience);
    try {
      this.model.send({ kind: "sglab:knock" });
    } catch {
      this.#lose();
    }
  };

  #become(connection: Connection): void {
    if (connection === this.#connection) return;
    this.#connection = connection;
    this.connectionChanged.emit(connection);
  }

  dispose(): void {
    clearTimeout(this.#timer);
    this.model.off("msg:custom", this.#receive);
    this.model.off("comm_live_update", this.#lose);
    this.model.off("comm:close", this.#lose);
    this.#pending.clear();
  }
}

/** Puts the message's buffers where `{dtype, shape, buffer: n}` is in its JSON, as decoded tensors. */
function unpack(value: unknown, buffers: DataView[]): unknown {
  if (Array.isArray(value)) return value.map((item) => unpack(item, buffers));
  if (isWireTensor(value))
    return decodeTensor({ ...value, buffer: buffers[Number(value.buffer)] as DataView });
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, unpack(item, buffers)]));
}
