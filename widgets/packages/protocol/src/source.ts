// Where a widget's data comes from, as renderers see it: a Python kernel, or a trace saved in the page.

import type { Common, SliceName } from "./common";
import type { Answers, Declaration, Requests, Tensors, Traits } from "./declare";
import type { DType, Tensor } from "./tensor";

/** `waiting`: a command has had no answer for a while; the kernel is busy or gone. `lost`: its connection closed. */
export type Connection = "live" | "waiting" | "lost" | "saved";

/**
 * The source of a widget with this protocol, or one that extends it. A saved trace differs from a live source only in that
 * it has no commands: `call` is refused.
 */
export type Source<D extends Declaration = Common> = SourceOf<Traits<D>, Requests<D>, Answers<D>, Tensors<D>>;

/** In four maps by name, so that a source of more is a source of less. */
export interface SourceOf<T, R, A, N> {
  /** Whether Python can be asked to do things. */
  readonly live: boolean;
  readonly connection: Connection;
  /** A trait of the Python widget. */
  get<Name extends keyof T & string>(name: Name): T[Name];
  set<Name extends keyof T & string>(name: Name, value: T[Name]): void;
  onChange(name: keyof T & string, listener: () => void): () => void;
  onConnection(listener: (connection: Connection) => void): () => void;
  /** Rows `start` to `stop` of a named tensor: only what is visible should cross. */
  slice<Name extends keyof N & string>(name: Name, start: number, stop: number): Promise<N[Name]>;
  /** Which slices were read of this revision and the last: what is looked at, in all likelihood in the next one, too. */
  read(): SliceName[];
  /** Runs a command of the Python widget and returns its answer, tensors decoded. */
  call<Name extends keyof R & keyof A & string>(command: Name, request: R[Name]): Promise<A[Name]>;
  dispose(): void;
}

/** Before its protocol is known. */
export type AnySource = SourceOf<
  Record<string, unknown>,
  Record<string, object>,
  Record<string, unknown>,
  Record<string, Tensor>
>;

/** What `widget.save()` writes; `data` is base64 of gzipped row-major bytes. */
export interface SavedTrace {
  widget: string;
  version: number;
  sglab: string;
  state: Record<string, unknown>;
  tensors: Record<string, { dtype: DType; shape: number[]; data: string }>;
}

/** A command on its way to Python. */
export interface CallMessage {
  kind: "sglab:call";
  id: string;
  command: string;
  args: object;
}

/** What comes back: a value, whose tensors are in the message's buffers, or an error. */
export interface AnswerMessage {
  kind: "sglab:answer";
  id: string;
  value?: unknown;
  error?: { type: string; message: string };
}
