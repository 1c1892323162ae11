// Questions to Python, one at a time: while it plans, later changes wait as one, so that a drag never queues up.

import type { Answer, Question } from "./protocol";

export interface Edit {
  seq_lens?: number[];
  planners?: string[];
  question?: Partial<Question>;
}

export interface Asker {
  readonly busy: boolean;
  ask(edit: Edit): void;
  /** Looks at what another has changed: now, or after the last answer, which may have been given before that change. */
  afterwards(look: () => void): void;
}

/** `answered` also hears when the question was asked, and what has been changed since. */
export function makeAsker(
  send: (edit: Edit) => Promise<Answer>,
  answered: (answer: Answer, asked: number, waiting: Edit | undefined) => void,
  failed: (error: unknown) => void,
): Asker {
  let waiting: Edit | undefined;
  let busy = false;
  let later: (() => void) | undefined;
  const run = async (edit: Edit) => {
    busy = true;
    const asked = performance.now();
    try {
      const answer = await send(edit);
      busy = waiting !== undefined;
      answered(answer, asked, waiting);
    } catch (error) {
      busy = waiting !== undefined;
      failed(error);
    }
    const next = waiting;
    waiting = undefined;
    if (next) await run(next);
    else {
      const look = later;
      later = undefined;
      look?.();
    }
  };
  return {
    get busy() {
      return busy;
    },
    ask(edit) {
      if (!busy) void run(edit);
      else waiting = { ...waiting, ...edit, question: { ...waiting?.question, ...edit.question } };
    },
    afterwards(look) {
      if (busy) later = look;
      else look();
    },
  };
}
