import type { AnyModel } from "@anywidget/types";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Channel, DISCONNECTED, PythonError } from "./channel";

type Listener = (...args: unknown[]) => void;

/** The page's side of a widget in JupyterLab; `closed`: sending fails. */
function model() {
  const listeners = new Map<string, Listener>();
  const sent: { kind: string; id: string; command?: string; args?: object }[] = [];
  const made = {
    closed: false,
    sent,
    on: (name: string, listener: Listener) => listeners.set(name, listener),
    off: (name: string) => listeners.delete(name),
    send(message: (typeof sent)[number]) {
      if (made.closed) throw new Error("the comm is closed");
      sent.push(message);
    },
    raise: (name: string, ...args: unknown[]) => listeners.get(name)?.(...args),
    answer: (id: string | undefined, value: unknown, buffers: DataView[] = []) =>
      made.raise("msg:custom", { kind: "sglab:answer", id, value }, buffers),
    listens: () => listeners.size > 0,
  };
  return made;
}

let page: ReturnType<typeof model>;
let channel: Channel;
beforeEach(() => {
  vi.useFakeTimers();
  page = model();
  channel = new Channel(page as unknown as AnyModel);
});
afterEach(() => {
  channel.dispose();
  vi.useRealTimers();
});

describe("answers", () => {
  test("go to the question with their number, in whatever order they come", async () => {
    const [first, second] = [channel.call("a", {}), channel.call("b", { n: 1 })];
    expect(page.sent.map(({ command, args }) => [command, args])).toEqual([
      ["a", {}],
      ["b", { n: 1 }],
    ]);
    page.answer(page.sent[1]?.id, "of b");
    page.answer(page.sent[0]?.id, "of a");
    expect([await first, await second]).toEqual(["of a", "of b"]);
  });

  test("bring their tensors in buffers, wherever they are", async () => {
    const asked = channel.call("a", {});
    const data = new DataView(Float32Array.of(1, 2, 3).buffer);
    page.answer(page.sent[0]?.id, { rows: [{ dtype: "float32", shape: [3], buffer: 0 }] }, [data]);
    const { rows } = (await asked) as { rows: { shape: number[]; data: Float32Array }[] };
    expect(rows[0]?.shape).toEqual([3]);
    expect(Array.from(rows[0]?.data ?? [])).toEqual([1, 2, 3]);
  });

  test("may be an error of Python's, with its type", async () => {
    const asked = channel.call("a", {});
    page.raise("msg:custom", {
      kind: "sglab:answer",
      id: page.sent[0]?.id,
      error: { type: "ValueError", message: "no such page" },
    });
    const error = await asked.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(PythonError);
    expect(error).toMatchObject({ type: "ValueError", message: "no such page" });
  });

  test("to nothing that was asked, and other messages, change nothing", () => {
    page.answer("call-unknown", 1);
    page.raise("msg:custom", { kind: "another library's" });
    page.raise("msg:custom", null);
    expect(channel.connection).toBe("live");
  });
});

describe("a kernel that does not answer", () => {
  const states: string[] = [];
  beforeEach(() => {
    states.length = 0;
    channel.connectionChanged.on((state) => states.push(state));
  });

  test("is waited for, and knocked at ever more rarely", async () => {
    void channel.call("a", {}).catch(() => {});
    vi.advanceTimersByTime(3_999);
    expect(states).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(states).toEqual(["waiting"]);
    const knocks = () => page.sent.filter(({ kind }) => kind === "sglab:knock").length;
    const after = [4_000, 8_000, 16_000, 32_000, 60_000, 60_000].map((pause) => {
      vi.advanceTimersByTime(pause - 1);
      const early = knocks();
      vi.advanceTimersByTime(1);
      return knocks() - early;
    });
    expect(after).toEqual([1, 1, 1, 1, 1, 1]);
  });

  test("is live again when it answers", async () => {
    const asked = channel.call("a", {});
    vi.advanceTimersByTime(10_000);
    page.answer(page.sent[0]?.id, 1);
    expect(await asked).toBe(1);
    expect(states).toEqual(["waiting", "live"]);
    vi.advanceTimersByTime(100_000);
    expect(states).toEqual(["waiting", "live"]); // nothing is open
  });

  test("is lost when a knock finds the connection closed", async () => {
    const asked = channel.call("a", {}).catch((reason: Error) => reason.message);
    page.closed = true;
    vi.advanceTimersByTime(4_000);
    expect(await asked).toBe(DISCONNECTED);
    expect(states).toEqual(["waiting", "lost"]);
  });
});

describe.each(["comm_live_update", "comm:close"])("a connection that ends by %s", (event) => {
  test("refuses what is open and what comes later", async () => {
    const open = channel.call("a", {}).catch((reason: Error) => reason.message);
    page.raise(event);
    expect(await open).toBe(DISCONNECTED);
    await expect(channel.call("b", {})).rejects.toThrow(DISCONNECTED);
    expect(page.sent).toHaveLength(1);
  });
});

test("a closed channel hears nothing and knocks no more", () => {
  void channel.call("a", {});
  channel.dispose();
  expect(page.listens()).toBe(false);
  vi.advanceTimersByTime(100_000);
  expect(page.sent).toHaveLength(1);
});
