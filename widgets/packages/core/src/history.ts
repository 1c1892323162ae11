// What Ctrl+Z takes back in one widget: what was selected there, and what the widget says it has changed.

import type { Selection } from "@sglab/protocol";
import type { Disposer } from "./emitter";
import type { KeyBinding } from "./keys";
import { type SelectionStore, sameSelection } from "./selection";

/** A change that can be taken back, and made again. */
export interface Deed {
  undo(): unknown;
  redo(): unknown;
  /** Changes with the same key right after each other, such as those of one drag, are one. */
  key?: string;
}

const MOST = 100;
const TOGETHER_MS = 1000; // between changes that are one

export class History {
  #done: Deed[] = [];
  #undone: Deed[] = [];
  #quiet = 0;
  #last = 0;

  constructor(private now: () => number = () => performance.now()) {}

  /** Tells of a change after it was made; what an undo itself changes is none. */
  did(deed: Deed): void {
    if (this.#quiet) return;
    const before = this.#done.at(-1);
    const now = this.now();
    const together = deed.key !== undefined && before?.key === deed.key && now - this.#last < TOGETHER_MS;
    if (before && together) this.#done[this.#done.length - 1] = { ...deed, undo: before.undo };
    else this.#done.push(deed);
    if (this.#done.length > MOST) this.#done.shift();
    this.#undone = [];
    this.#last = now;
  }

  /** A change that was told of has come to nothing: it costs no undo. */
  forget({ undo, redo }: Deed): void {
    this.#done = this.#done.filter((deed) => deed.undo !== undo || deed.redo !== redo);
  }

  /** What `run` changes, until it is over, is no deed of its own. */
  quietly(run: () => unknown): unknown {
    this.#quiet += 1;
    const over = () => {
      this.#quiet -= 1;
    };
    let ending: unknown;
    try {
      ending = run();
    } finally {
      if (!(ending instanceof Promise)) over();
    }
    return ending instanceof Promise ? ending.finally(over) : ending;
  }

  /** Takes the last change back; false where there is none. */
  undo(): boolean {
    const deed = this.#done.pop();
    if (deed) this.#undone.push(deed);
    this.#last = 0;
    return this.#perform(deed?.undo);
  }

  /** Makes again what was taken back last. */
  redo(): boolean {
    const deed = this.#undone.pop();
    if (deed) this.#done.push(deed);
    return this.#perform(deed?.redo);
  }

  #perform(run: (() => unknown) | undefined): boolean {
    if (run) void this.quietly(run);
    return run !== undefined;
  }

  keys(nothing: (text: string) => void): KeyBinding[] {
    return [
      {
        keys: ["Ctrl+z"],
        shown: "Ctrl+Z",
        label: "undo: what was selected or changed here last",
        run: () => this.undo() || nothing("There is nothing to undo here."),
      },
      {
        keys: ["Ctrl+y", "Ctrl+Shift+z"],
        shown: "Ctrl+Y",
        label: "redo",
        run: () => this.redo() || nothing("There is nothing to redo here."),
      },
    ];
  }
}

const histories = new WeakMap<Disposer, History>();

/** The history of the view that `disposer` belongs to. */
export function historyOf(disposer: Disposer): History {
  const history = histories.get(disposer) ?? new History();
  histories.set(disposer, history);
  return history;
}

/** The store, whose changes by this widget are remembered. Where it has been stepped to is none of them: ← goes back. */
export function remembered(store: SelectionStore, history: History): SelectionStore {
  const restore = (selection: Selection) => {
    const { moment, launch } = store.value;
    store.set({ ...still(selection), moment, launch });
  };
  return {
    get value() {
      return store.value;
    },
    set(next, origin) {
      const before = store.value;
      store.set(next, origin);
      const after = store.value;
      if (sameSelection(still(before), still(after))) return;
      history.did({ undo: () => restore(before), redo: () => restore(after) });
    },
    on: store.on,
  };
}

function still({ moment: _, launch: __, ...selection }: Selection): Selection {
  return selection;
}
