import { expect, test } from "vitest";
import { type Edit, makeAsker } from "./asker";
import type { Answer } from "./protocol";

function made() {
  const sent: Edit[] = [];
  const open: ((answer: Answer | Error) => Promise<void>)[] = [];
  const heard: unknown[] = [];
  const asker = makeAsker(
    (edit) => {
      sent.push(edit);
      return new Promise((resolve, reject) =>
        open.push((answer) => {
          if (answer instanceof Error) reject(answer);
          else resolve(answer);
          return new Promise((done) => setTimeout(done));
        }),
      );
    },
    (_, __, waiting) => heard.push(waiting),
    (error) => heard.push((error as Error).message),
  );
  return { asker, sent, heard, answer: (with_: Answer | Error = {} as Answer) => open.shift()?.(with_) };
}

test("a drag asks twice: what came first, and all that has changed meanwhile as one", async () => {
  const { asker, sent, heard, answer } = made();
  asker.ask({ seq_lens: [1] });
  asker.ask({ seq_lens: [2] });
  asker.ask({ question: { sm_count: 8 } as never });
  asker.ask({ seq_lens: [3], question: { page_size: 64 } as never });
  expect(sent).toEqual([{ seq_lens: [1] }]);
  await answer();
  expect(sent.slice(1)).toEqual([{ seq_lens: [3], question: { sm_count: 8, page_size: 64 } }]);
  expect(heard).toEqual([sent[1]]); // the first answer is outdated, and knows it
  expect(asker.busy).toBe(true);
  await answer();
  expect(heard).toHaveLength(2);
  expect(asker.busy).toBe(false);
});

test("what waits is asked after an error, too", async () => {
  const { asker, sent, heard, answer } = made();
  asker.ask({ planners: ["a"] });
  asker.ask({ planners: ["b"] });
  await answer(new Error("no such planner"));
  expect(heard).toEqual(["no such planner"]);
  expect(sent).toHaveLength(2);
  await answer();
  expect(asker.busy).toBe(false);
});

test("what is to be looked at while a question is open is looked at after the last answer, once", async () => {
  const { asker, answer } = made();
  const looked: string[] = [];
  asker.afterwards(() => looked.push("idle"));
  asker.ask({ seq_lens: [1] });
  asker.ask({ seq_lens: [2] });
  asker.afterwards(() => looked.push("first"));
  asker.afterwards(() => looked.push("second"));
  await answer();
  expect(looked).toEqual(["idle"]);
  await answer();
  expect(looked).toEqual(["idle", "second"]);
  asker.ask({ seq_lens: [3] });
  await answer(new Error("no"));
  expect(looked).toEqual(["idle", "second"]);
});

test("those whose question is refused are told, and no others", async () => {
  const { asker, answer } = made();
  const refused: string[] = [];
  asker.ask({ seq_lens: [1] }, () => refused.push("first"));
  asker.ask({ seq_lens: [2] }, () => refused.push("second"));
  asker.ask({ planners: ["b"] }, () => refused.push("third"));
  await answer();
  expect(refused).toEqual([]);
  await answer(new Error("no"));
  expect(refused).toEqual(["second", "third"]);
});
