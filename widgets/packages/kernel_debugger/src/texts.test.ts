import { describe, expect, test, vi } from "vitest";
import type { DebuggerSource } from "./protocol";
import { TextLines } from "./texts";

const LINES = Array.from({ length: 600 }, (_, i) => `line ${i + 1}: é\n`);
const encoded = LINES.map((line) => new TextEncoder().encode(line));
const starts = [0];
for (const { length } of encoded) starts.push((starts.at(-1) as number) + length);
const bytes = Uint8Array.from(encoded.flatMap((line) => [...line]));

/** Reads of a text that begin at a byte of `broken` fail. */
function opened(broken: number[] = []) {
  const slice = vi.fn(async (name: string, from: number, to: number) => {
    if (name === "ptx.start") return { data: Int32Array.from(starts) };
    if (broken.includes(from)) throw new Error("not read");
    return { data: bytes.slice(from, to) };
  });
  const [arrived, failed] = [vi.fn(), vi.fn()];
  const texts = new TextLines({ slice } as unknown as DebuggerSource, "ptx", arrived, failed);
  return { texts, slice, arrived, failed };
}
const settled = () => new Promise((done) => setTimeout(done));

describe("lines of a long text", () => {
  test("are counted once it is open, without reading them", async () => {
    const { texts, slice } = opened();
    expect(texts.count).toBe(0);
    await texts.open();
    expect(texts.count).toBe(600);
    expect(slice).toHaveBeenCalledTimes(1);
  });

  test("are on their way at first; then they have arrived, without their ends", async () => {
    const { texts, arrived } = opened();
    await texts.open();
    expect(texts.line(1)).toBeUndefined();
    await settled();
    expect(arrived).toHaveBeenCalledOnce();
    expect(texts.line(1)).toBe("line 1: é");
    expect(texts.line(256)).toBe("line 256: é");
  });

  test("cross once, and only around those that are looked at", async () => {
    const { texts, slice } = opened();
    await texts.open();
    for (let i = 0; i < 3; i++) texts.line(300);
    await settled();
    expect(texts.line(300)).toBe("line 300: é");
    expect(slice.mock.calls.slice(1)).toEqual([["ptx.text", starts[256], starts[512]]]);
  });

  test("can all be had, in their order", async () => {
    const { texts } = opened();
    await texts.open();
    texts.line(300); // on its way already
    expect(await texts.all()).toEqual(LINES.map((line) => line.trimEnd()));
  });

  test("keep their numbers where some could not be read", async () => {
    const { texts, failed } = opened([0]);
    await texts.open();
    const all = await texts.all();
    expect(failed).toHaveBeenCalledOnce();
    expect(all).toHaveLength(600);
    expect(all[299]).toBe("line 300: é");
    expect(all[0]).toBe("");
  });
});
