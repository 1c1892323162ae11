import { expect, test } from "vitest";
import { gathered, oneAtATime, stepsAsked } from "./asking";

function frame() {
  const said: string[] = [];
  const attributes = new Map<string, string>();
  const root = {
    setAttribute: (name: string, value: string) => attributes.set(name, value),
    removeAttribute: (name: string) => attributes.delete(name),
  } as unknown as HTMLElement;
  return {
    said,
    attributes,
    root,
    notify: (_: string, text: string) => said.push(text),
    clearNotice: () => void said.splice(0),
  };
}

test("one piece of work at a time, and the frame says that it is busy", async () => {
  const shown = frame();
  const asking = oneAtATime(shown);
  let end = () => {};
  let done = 0;
  const first = asking.run(
    () =>
      new Promise<void>((resolve) => {
        end = resolve;
      }),
  );
  expect([asking.busy, shown.attributes.get("aria-busy")]).toEqual([true, "true"]);
  await asking.run(async () => {
    done += 1;
  });
  expect(done).toBe(0);
  end();
  await first;
  expect([asking.busy, shown.attributes.size]).toEqual([false, 0]);
  await asking.run(async () => {
    done += 1;
  });
  expect(done).toBe(1);
});

test("a refusal is said, the controls are told, and the next question clears it", async () => {
  const shown = frame();
  const told: string[] = [];
  const asking = oneAtATime(shown, {
    refused: () => told.push("refused"),
    changed: () => told.push("changed"),
  });
  await asking.run(() => Promise.reject(new Error("no such pass")));
  expect(shown.said).toEqual(["no such pass"]);
  expect(told).toEqual(["changed", "refused", "changed"]);
  await asking.run(async () => {});
  expect(shown.said).toEqual([]);
});

test("steps that come faster than the answers add up", async () => {
  let shown = 1;
  const asked: number[] = [];
  const answers: (() => void)[] = [];
  const step = stepsAsked(
    () => shown,
    () => 5,
    (to) =>
      new Promise((resolve) => {
        asked.push(to);
        answers.push(() => {
          shown = to;
          resolve();
        });
      }),
  );
  const first = step(1);
  await step(1);
  await step(1);
  await step(1); // there are no more
  answers.shift()?.();
  await Promise.resolve();
  await Promise.resolve();
  answers.shift()?.();
  await first;
  expect(asked).toEqual([2, 4]);
  const back = step(-1);
  answers.shift()?.();
  await back;
  expect([asked.at(-1), shown]).toEqual([3, 3]);
});

test("what is changed while Python works is asked for afterwards, not dropped", async () => {
  const asked: object[] = [];
  const ends: (() => void)[] = [];
  const ask = gathered(oneAtATime(frame()), (change: { step?: number; layer?: number }) => {
    asked.push(change);
    return new Promise<void>((resolve) => ends.push(resolve));
  });
  const first = ask({ step: 1 });
  void ask({ layer: 2 });
  void ask({ step: 3 });
  expect(asked).toEqual([{ step: 1 }]);
  ends[0]?.();
  await Promise.resolve().then(() => new Promise((done) => setTimeout(done)));
  expect(asked).toEqual([{ step: 1 }, { layer: 2, step: 3 }]);
  ends[1]?.();
  await first;
  expect(asked).toHaveLength(2);
});
