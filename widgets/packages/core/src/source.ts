// Where a widget's data comes from: a Python kernel, or a trace saved in the page. Renderers see no difference,
// except that a saved trace has no `call`.

import type { AnyModel } from "@anywidget/types";
import { Channel, type Connection } from "./channel";
import { Disposer } from "./emitter";
import { type DType, decodeTensor, sliceTensor, type Tensor } from "./tensor";

export interface Source {
  /** Whether Python can be asked to do things. */
  readonly live: boolean;
  readonly connection: Connection;
  /** A trait of the Python widget. */
  get<T>(name: string): T;
  set(name: string, value: unknown): void;
  onChange(name: string, listener: () => void): () => void;
  onConnection(listener: (connection: Connection) => void): () => void;
  /** Rows `start` to `stop` of a named tensor: only what is visible should cross. */
  slice(name: string, start: number, stop: number): Promise<Tensor>;
  /** Which slices were read of this revision and the last: what is looked at, in all likelihood in the next one, too. */
  read(): SliceName[];
  /** Runs a command of the Python widget and returns its answer, tensors decoded. */
  call<T>(command: string, args?: Record<string, unknown>): Promise<T>;
  dispose(): void;
}

export interface SliceName {
  name: string;
  start: number;
  stop: number;
}

/** Rows that Python sent along with a revision, without being asked for them. */
interface PushedSlice extends SliceName {
  dtype: DType;
  shape: number[];
  data: DataView;
}

interface SliceRequest extends SliceName {
  resolve: (tensor: Tensor) => void;
  reject: (reason: unknown) => void;
}

const CACHED_SLICES = 512;

export class LiveSource implements Source {
  readonly live = true;
  #channel: Channel;
  #waiting: SliceRequest[] = [];
  #cache = new Map<string, Promise<Tensor>>();
  #read = new Map<string, SliceName>();
  #readBefore = new Map<string, SliceName>();
  #disposer = new Disposer();

  constructor(private model: AnyModel) {
    this.#channel = new Channel(model);
    this.#disposer.add(() => this.#channel.dispose());
    this.onChange("revision", () => {
      this.#cache.clear();
      this.#readBefore = this.#read;
      this.#read = new Map();
    });
  }

  get connection(): Connection {
    return this.#channel.connection;
  }

  get<T>(name: string): T {
    return this.model.get(name) as T;
  }

  set(name: string, value: unknown): void {
    this.model.set(name, value);
    this.model.save_changes();
  }

  onChange(name: string, listener: () => void): () => void {
    const event = `change:${name}` as const;
    this.model.on(event, listener);
    const off = () => this.model.off(event, listener);
    this.#disposer.add(off);
    return off;
  }

  onConnection(listener: (connection: Connection) => void): () => void {
    return this.#channel.connectionChanged.on(listener);
  }

  slice(name: string, start: number, stop: number): Promise<Tensor> {
    const key = `${name} ${start} ${stop}`;
    this.#read.set(key, { name, start, stop });
    const known = this.#cache.get(key);
    if (known) return known;
    const asked = this.#pushed(name, start, stop) ?? this.#ask(name, start, stop);
    if (this.#cache.size >= CACHED_SLICES) this.#cache.clear();
    this.#cache.set(key, asked);
    asked.catch(() => this.#cache.delete(key));
    return asked;
  }

  #pushed(name: string, start: number, stop: number): Promise<Tensor> | undefined {
    const found = (this.model.get("pushed") as PushedSlice[] | undefined)?.find(
      (each) => each.name === name && each.start === start && each.stop === stop,
    );
    return found && Promise.resolve(decodeTensor({ ...found, buffer: found.data }));
  }

  #ask(name: string, start: number, stop: number): Promise<Tensor> {
    return new Promise<Tensor>((resolve, reject) => {
      if (this.#waiting.length === 0) queueMicrotask(() => this.#askForSlices());
      this.#waiting.push({ name, start, stop, resolve, reject });
    });
  }

  read(): SliceName[] {
    return [...new Map([...this.#readBefore, ...this.#read]).values()];
  }

  /** What was asked for in one turn of the event loop crosses in one message. */
  async #askForSlices(): Promise<void> {
    const requests = this.#waiting.splice(0);
    const slices = requests.map(({ name, start, stop }) => ({ name, start, stop }));
    try {
      const tensors = await this.call<Tensor[]>("slices", { slices });
      requests.forEach((request, i) => {
        request.resolve(tensors[i] as Tensor);
      });
    } catch (error) {
      for (const request of requests) request.reject(error);
    }
  }

  call<T>(command: string, args: Record<string, unknown> = {}): Promise<T> {
    return this.#channel.call<T>(command, args);
  }

  dispose(): void {
    this.#disposer.dispose();
  }
}

/** What `widget.save()` writes; `data` is base64 of gzipped row-major bytes. */
export interface SavedTrace {
  widget: string;
  version: number;
  sglab: string;
  state: Record<string, unknown>;
  tensors: Record<string, { dtype: DType; shape: number[]; data: string }>;
}

export class SavedSource implements Source {
  readonly live = false;
  readonly connection: Connection = "saved";
  #state: Record<string, unknown>;
  #listeners = new Map<string, Set<() => void>>();
  #tensors = new Map<string, Promise<Tensor>>();

  constructor(private saved: SavedTrace) {
    this.#state = { ...saved.state };
  }

  get<T>(name: string): T {
    return this.#state[name] as T;
  }

  set(name: string, value: unknown): void {
    this.#state[name] = value;
    for (const listener of this.#listeners.get(name) ?? []) listener();
  }

  onChange(name: string, listener: () => void): () => void {
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  onConnection(): () => void {
    return () => {};
  }

  async slice(name: string, start: number, stop: number): Promise<Tensor> {
    return sliceTensor(await this.#whole(name), start, stop);
  }

  #whole(name: string): Promise<Tensor> {
    const known = this.#tensors.get(name);
    if (known) return known;
    const saved = this.saved.tensors[name];
    const whole = saved
      ? inflate(saved.data).then((buffer) => decodeTensor({ dtype: saved.dtype, shape: saved.shape, buffer }))
      : Promise.reject(new Error(`This saved trace holds no tensor named ${name}.`));
    this.#tensors.set(name, whole);
    return whole;
  }

  read(): SliceName[] {
    return [];
  }

  call<T>(): Promise<T> {
    return Promise.reject(
      new Error("This is a saved trace, without Python. Open the notebook that saved it to change the data."),
    );
  }

  dispose(): void {
    this.#listeners.clear();
  }
}

async function inflate(base64: string): Promise<ArrayBuffer> {
  const packed = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}
