import type { AnyModel } from "@anywidget/types";
import type { CallMessage } from "@sglab/protocol";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { LiveSource, SavedSource } from "./source";

/** The page's side of a widget, with what was sent to Python. */
class FakeModel {
  state: Record<string, unknown> = { revision: 1 };
  sent: CallMessage[] = [];
  #listeners = new Map<string, Set<(...values: unknown[]) => void>>();

  get(name: string): unknown {
    return this.state[name];
  }
  set(name: string, value: unknown): void {
    this.state[name] = value;
  }
  save_changes(): void {}
  send(message: CallMessage): void {
    this.sent.push(message);
  }
  on(name: string, listener: () => void): void {
    this.#listeners.set(name, (this.#listeners.get(name) ?? new Set()).add(listener));
  }
  off(name: string, listener: () => void): void {
    this.#listeners.get(name)?.delete(listener);
  }
  emit(name: string, ...values: unknown[]): void {
    for (const listener of this.#listeners.get(name) ?? []) listener(...values);
  }
  get listeners(): number {
    return [...this.#listeners.values()].reduce((sum, each) => sum + each.size, 0);
  }
  answer(call: number, value: unknown, buffers: DataView[] = []): void {
    this.emit("msg:custom", { kind: "sglab:answer", id: this.sent[call]?.id, value }, buffers);
  }
}

function live() {
  const model = new FakeModel();
  return { model, source: new LiveSource(model as unknown as AnyModel) };
}
const settled = () => Promise.resolve();

describe("commands", () => {
  test("answers find their questions, in any order", async () => {
    const { model, source } = live();
    const [first, second] = [source.call("seek", { position: 1 }), source.call("seek", { position: 2 })];
    expect(model.sent.map(({ command, args }) => [command, args])).toEqual([
      ["seek", { position: 1 }],
      ["seek", { position: 2 }],
    ]);
    model.answer(1, "two");
    model.answer(0, "one");
    expect(await Promise.all([first, second])).toEqual(["one", "two"]);
  });

  test("tensors in an answer are decoded, wherever they are in it", async () => {
    const { model, source } = live();
    const answer = source.call("plan", {});
    const wire = { dtype: "int32", shape: [2], buffer: 0 };
    model.answer(0, { panes: [{ work: wire }] }, [new DataView(Int32Array.of(3, 4).buffer)]);
    expect(await answer).toEqual({
      panes: [{ work: { dtype: "int32", shape: [2], data: Int32Array.of(3, 4) } }],
    });
  });

  test("an error of Python's comes with its type", async () => {
    const { model, source } = live();
    const answer = source.call("seek", { position: -1 });
    const error = { type: "ValueError", message: "position must be 0 or more" };
    model.emit("msg:custom", { kind: "sglab:answer", id: model.sent[0]?.id, error }, []);
    await expect(answer).rejects.toMatchObject(error);
  });
});

describe("the connection", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test("waits after a while without an answer, and lives again with one", () => {
    const { model, source } = live();
    const seen: string[] = [];
    source.onConnection((connection) => seen.push(connection));
    void source.call("seek", {});
    vi.advanceTimersByTime(3999);
    expect(source.connection).toBe("live");
    vi.advanceTimersByTime(1);
    expect(source.connection).toBe("waiting");
    model.answer(0, null);
    expect(seen).toEqual(["waiting", "live"]);
  });

  test("a kernel that was shut down without a word is found out", async () => {
    const { model, source } = live();
    const open = source.call("seek", {});
    vi.advanceTimersByTime(4000);
    expect(source.connection).toBe("waiting");
    expect(model.sent).toHaveLength(2); // the call and a knock
    model.send = () => {
      throw new Error("disposed");
    };
    vi.advanceTimersByTime(4000);
    expect(source.connection).toBe("lost");
    await expect(open).rejects.toThrow("run the cells again");
  });

  test("once lost, what is open and what is asked later fail with what to do", async () => {
    const { model, source } = live();
    const open = source.call("seek", {});
    model.emit("comm:close");
    await expect(open).rejects.toThrow("run the cells again");
    await expect(source.call("seek", {})).rejects.toThrow("Disconnected");
    expect(model.sent).toHaveLength(1);
  });
});

describe("slices", () => {
  const tensorOf = (...values: number[]) => new DataView(Int32Array.from(values).buffer);
  const wire = (buffer: number) => ({ dtype: "int32", shape: [1], buffer });

  test("of one turn cross in one message, and are kept until the next revision", async () => {
    const { model, source } = live();
    const read = () => Promise.all([source.slice("a", 0, 1), source.slice("b", 0, 1)]);
    const both = read();
    await settled();
    expect(model.sent.map(({ args }) => args)).toEqual([
      {
        slices: [
          { name: "a", start: 0, stop: 1 },
          { name: "b", start: 0, stop: 1 },
        ],
      },
    ]);
    model.answer(0, [wire(0), wire(1)], [tensorOf(5), tensorOf(6)]);
    expect((await both).map(({ data }) => data[0])).toEqual([5, 6]);
    await read();
    expect(model.sent).toHaveLength(1);
    model.state.revision = 2;
    model.emit("change:revision");
    void read();
    await settled();
    expect(model.sent).toHaveLength(2);
  });

  test("that Python sent along are not asked for", async () => {
    const { model, source } = live();
    model.state.pushed = [{ name: "a", start: 0, stop: 1, dtype: "int32", shape: [1], data: tensorOf(9) }];
    expect((await source.slice("a", 0, 1)).data[0]).toBe(9);
    expect(model.sent).toEqual([]);
  });

  test("are remembered for two revisions, as what is probably looked at next", async () => {
    const { model, source } = live();
    void source.slice("a", 0, 1).catch(() => {});
    model.emit("change:revision");
    void source.slice("b", 2, 4).catch(() => {});
    const [a, b] = [
      { name: "a", start: 0, stop: 1 },
      { name: "b", start: 2, stop: 4 },
    ];
    expect(source.read()).toEqual([a, b]);
    model.emit("change:revision");
    expect(source.read()).toEqual([b]);
  });
});

test("a disposed source listens no more", () => {
  const { model, source } = live();
  source.onChange("now", () => {});
  source.dispose();
  expect(model.listeners).toBe(0);
});

async function gzipped(data: ArrayBuffer): Promise<string> {
  const stream = new Blob([data]).stream().pipeThrough(new CompressionStream("gzip"));
  return btoa(String.fromCharCode(...new Uint8Array(await new Response(stream).arrayBuffer())));
}

describe("a saved trace", async () => {
  const data = await gzipped(Int32Array.of(1, 2, 3, 4).buffer);
  const trace = {
    widget: "probe",
    version: 1,
    sglab: "0",
    state: { kernel: "a" },
    tensors: { steps: { dtype: "int32" as const, shape: [2, 2], data } },
  };
  const saved = () => new SavedSource(trace);

  test("holds tensors, whole or in slices", async () => {
    const { shape, data: numbers } = await saved().slice("steps", 1, 99);
    expect([shape, Array.from(numbers)]).toEqual([
      [1, 2],
      [3, 4],
    ]);
    await expect(saved().slice("nothing", 0, 1)).rejects.toThrow("holds no tensor named nothing");
    const cut = new SavedSource({
      ...trace,
      tensors: { steps: { ...trace.tensors.steps, data: data.slice(0, 8) } },
    });
    await expect(cut.slice("steps", 0, 1)).rejects.toThrow("damaged: its tensor steps cannot be read");
  });

  test("notifies of traits that the page sets, and refuses commands", async () => {
    const source = saved();
    let told = 0;
    const off = source.onChange("kernel", () => {
      told += 1;
    });
    source.set("kernel", "b");
    off();
    source.set("kernel", "c");
    expect([source.get("kernel"), told]).toEqual(["c", 1]);
    await expect(source.call()).rejects.toThrow("a notebook or sglab step");
  });
});
