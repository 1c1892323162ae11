// The two sources of a widget's data: a Python kernel, and a trace saved in the page. Renderers see no difference,
// except that a saved trace has no `call`.

import type { AnyModel } from "@anywidget/types";
import {
  type AnySource,
  type Connection,
  decodeTensor,
  type PushedSlice,
  type SavedTrace,
  type SliceName,
  sliceTensor,
  type Tensor,
} from "@sglab/protocol";
import { Channel } from "./channel";
import { Disposer } from "./emitter";

interface SliceRequest extends SliceName {
  resolve: (tensor: Tensor) => void;
  reject: (reason: unknown) => void;
}

const CACHED_SLICES = 512;

export class LiveSource implements AnySource {
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

  get(name: string): unknown {
    return this.model.get(name);
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

  /** Requests made in one turn of the event loop cross in one message. */
  async #askForSlices(): Promise<void> {
    const requests = this.#waiting.splice(0);
    const slices = requests.map(({ name, start, stop }) => ({ name, start, stop }));
    try {
      const tensors = (await this.call("slices", { slices })) as Tensor[];
      requests.forEach((request, i) => {
        request.resolve(tensors[i] as Tensor);
      });
    } catch (error) {
      for (const request of requests) request.reject(error);
    }
  }

  call(command: string, request: object): Promise<unknown> {
    return this.#channel.call(command, request);
  }

  dispose(): void {
    this.#disposer.dispose();
  }
}

export class SavedSource implements AnySource {
  readonly live = false;
  readonly connection: Connection = "saved";
  #state: Record<string, unknown>;
  #listeners = new Map<string, Set<() => void>>();
  #tensors = new Map<string, Promise<Tensor>>();

  constructor(private saved: SavedTrace) {
    this.#state = { ...saved.state };
  }

  get(name: string): unknown {
    return this.#state[name];
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
      ? inflate(saved.data)
          .then((buffer) => decodeTensor({ dtype: saved.dtype, shape: saved.shape, buffer }))
          .catch(() => {
            throw new Error(`What was saved is damaged: its tensor ${name} cannot be read.`);
          })
      : Promise.reject(new Error(`This saved trace holds no tensor named ${name}.`));
    this.#tensors.set(name, whole);
    return whole;
  }

  read(): SliceName[] {
    return [];
  }

  call(): Promise<never> {
    return Promise.reject(
      new Error(
        "This is a saved trace, without Python. What saved it, a notebook or sglab step, has the rest.",
      ),
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
