import { expect, test, vi } from "vitest";
import { CommandRunner } from "./command_runner";

function made() {
  const attributes = new Map<string, string>();
  const frame = {
    notify: vi.fn(),
    root: {
      setAttribute: (name: string, value: string) => attributes.set(name, value),
      removeAttribute: (name: string) => attributes.delete(name),
    },
  };
  const runner = new CommandRunner({} as never, frame as never);
  return { runner, frame, attributes };
}

test("a second command does nothing while the first runs, and the widget says so", async () => {
  const { runner, frame, attributes } = made();
  let finish = () => {};
  const first = runner.run(() => new Promise<void>((done) => (finish = done)));
  const second = vi.fn(async () => {});
  await runner.run(second);
  expect(second).not.toHaveBeenCalled();
  expect(frame.notify).toHaveBeenCalledWith(
    "info",
    expect.stringContaining("Nothing was changed: Python is still"),
  );
  expect(attributes.get("aria-busy")).toBe("true");
  finish();
  await first;
  expect(attributes.has("aria-busy")).toBe(false);
  await runner.run(second);
  expect(second).toHaveBeenCalledOnce();
});

test("an error is shown, and the next command runs", async () => {
  const { runner, frame, attributes } = made();
  await runner.run(async () => {
    throw new Error("tokens: expected at most 64.");
  });
  expect(frame.notify).toHaveBeenCalledWith("error", "Nothing was changed. tokens: expected at most 64.");
  expect(attributes.has("aria-busy")).toBe(false);
  const next = vi.fn(async () => {});
  await runner.run(next);
  expect(next).toHaveBeenCalledOnce();
});
