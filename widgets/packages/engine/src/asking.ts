// Work that Python does for a widget, one piece at a time: what is asked meanwhile is left out, what is refused is said.

import type { Frame } from "@sglab/core";

export interface Asking {
  readonly busy: boolean;
  /** Resolves when the work is over, whether or not it succeeded. */
  run(work: () => Promise<unknown>): Promise<void>;
}

export interface Asked {
  /** After a refusal: controls show what still holds. */
  refused?: () => void;
  /** `busy` has changed. */
  changed?: () => void;
}

export function oneAtATime(frame: Pick<Frame, "root" | "notify" | "clearNotice">, asked: Asked = {}): Asking {
  let busy = false;
  const become = (now: boolean) => {
    busy = now;
    if (now) frame.root.setAttribute("aria-busy", "true");
    else frame.root.removeAttribute("aria-busy");
    asked.changed?.();
  };
  return {
    get busy() {
      return busy;
    },
    async run(work) {
      if (busy) return;
      frame.clearNotice();
      become(true);
      try {
        await work();
      } catch (error) {
        frame.notify("error", (error as Error).message);
        asked.refused?.();
      } finally {
        become(false);
      }
    },
  };
}

/** Asks for changes. What is changed while Python works on others is asked for afterwards, all at once. */
export function gathered<Change extends object>(asking: Asking, call: (change: Change) => Promise<unknown>) {
  let waiting: Change | undefined;
  return async (change: Change): Promise<void> => {
    if (asking.busy) {
      waiting = { ...waiting, ...change };
      return;
    }
    for (let next: Change | undefined = change; next; ) {
      const now: Change = next;
      await asking.run(() => call(now));
      next = waiting;
      waiting = undefined;
    }
  };
}

/** Steps through what Python shows one at a time. Steps that come faster than it answers add up: it then goes to where they lead.
 *
 * Args:
 *   at: what Python shows; count: how many there are; go: asks for another.
 */
export function stepsAsked(at: () => number, count: () => number, go: (to: number) => Promise<void>) {
  let wanted: number | undefined;
  return async (step: number): Promise<void> => {
    const next = (wanted ?? at()) + step;
    if (next < 0 || next >= count()) return;
    const under = wanted !== undefined;
    wanted = next;
    if (under) return;
    for (let to: number | undefined; to !== wanted; ) {
      to = wanted;
      await go(to);
    }
    wanted = undefined;
  };
}
