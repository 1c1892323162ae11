import { expect, test, vi } from "vitest";
import type { CodeModel } from "./code_model";
import { openBackend } from "./open_backend";
import type { DebuggerSource, Look } from "./protocol";

const LOOK = { cta: 1, warp: 2, group: 0 } as unknown as Look;

test("each question of a live session is a command, with what the page looks at", async () => {
  const call = vi.fn(async (name: string) => ({ said: name }));
  const source = { live: true, call } as unknown as DebuggerSource;
  const backend = await openBackend(source, {} as CodeModel);
  expect(backend.live).toBe(true);
  await backend.look(LOOK);
  await backend.go("run", { limit: 5 } as never, LOOK);
  await backend.goOn(LOOK);
  await backend.halt(LOOK);
  expect(await backend.ask("watch", { expression: "smem+0" } as never, LOOK)).toEqual({ said: "watch" });
  expect(call.mock.calls).toEqual([
    ["look", { look: LOOK }],
    ["go", { action: "run", look: LOOK, limit: 5 }],
    ["go_on", { look: LOOK }],
    ["halt", { look: LOOK }],
    ["watch", { look: LOOK, expression: "smem+0" }],
  ]);
});

test("a saved page has no session, and its moments are read from the page", async () => {
  const call = vi.fn();
  const source = {
    live: false,
    call,
    get: () => undefined,
    slice: async () => {
      throw new Error("moments are read");
    },
  } as unknown as DebuggerSource;
  await expect(openBackend(source, {} as CodeModel)).rejects.toThrow("moments are read");
  expect(call).not.toHaveBeenCalled();
});
