// Questions to Python, one at a time: while it plans, later changes wait as one, so that a drag never queues up.

import type { Answer, Question } from "./protocol";

export interface Edit {
  seq_lens?: number[];
  planners?: string[];
  question?: Partial<Question>;
}

export interface Asker {
  readonly busy: boolean;
  /** `refused` is called when it, or the question that it became a part of, is refused. */
  ask(edit: Edit, refused?: () => void): void;
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
  let hopes: (() => void)[] = []; // of what waits
  let busy = false;
  let later: (() => void) | undefined;
  const run = async (edit: Edit, refused: (() => void)[]) => {
    busy = true;
    const asked = performance.now();
    try {
      const answer = await send(edit);
      busy = waiting !== undefined;
      answered(answer, asked, waiting);
    } catch (error) {
      busy = waiting !== undefined;
      for (const tell of refused) tell();
      failed(error);
    }
    const [next, theirs] = [waiting, hopes];
    waiting = undefined;
    hopes = [];
    if (next) await run(next, theirs);
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
    ask(edit, refused) {
      const told = refused ? [refused] : [];
      if (!busy) void run(edit, told);
      else {
        waiting = { ...waiting, ...edit, question: { ...waiting?.question, ...edit.question } };
        hopes.push(...told);
      }
    },
    afterwards(look) {
      if (busy) later = look;
      else look();
    },
  };
}
