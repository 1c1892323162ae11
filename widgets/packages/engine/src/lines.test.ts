import { expect, test } from "vitest";
import { Lines } from "./lines";

const encoder = new TextEncoder();

/** A source whose bytes grow, and what was asked of it. */
function source() {
  let bytes = new Uint8Array();
  const asked: [number, number][] = [];
  return {
    asked,
    append(...lines: object[]) {
      const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
      bytes = new Uint8Array([...bytes, ...encoder.encode(text)]);
    },
    get: (name: string) => (name === "size" ? bytes.length : 0) as never,
    slice: async (_: string, start: number, stop: number) => {
      asked.push([start, stop]);
      return { data: bytes.slice(start, stop), shape: [stop - start], dtype: "uint8" } as never;
    },
  };
}

test("each line is read once, in order, with characters of several bytes", async () => {
  const from = source();
  const seen: number[] = [];
  const lines = new Lines<{ text: string }>(from, (_, index) => seen.push(index));
  from.append({ text: "→ é" }, { text: "b" });
  expect(await lines.read()).toBe(true);
  expect(await lines.read()).toBe(false);
  from.append({ text: "c" });
  await Promise.all([lines.read(), lines.read()]);
  expect(lines.all.map(({ text }) => text)).toEqual(["→ é", "b", "c"]);
  expect(seen).toEqual([0, 1, 2]);
  expect(from.asked).toHaveLength(2);
  expect(from.asked[1]?.[0]).toBe(from.asked[0]?.[1]);
});
