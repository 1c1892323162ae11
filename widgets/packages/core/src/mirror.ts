// The page's selection and Python's. A page may hold dozens of widgets of one kernel, which keeps one selection for all of
// them: the first that can reach it reports what was selected here, in one message.

import type { AnyModel } from "@anywidget/types";
import type { Common, Source, Traits } from "@sglab/protocol";
import type { Disposer } from "./emitter";
import type { SelectionStore } from "./selection";

interface Mirrors {
  /** Models from which a selection has come. */
  origins: WeakSet<object>;
  /** Selections that a model has reported. */
  reported: WeakSet<object>;
  /** What models keep of Python's selections although the page has selected since. */
  past: WeakSet<object>;
  /** What is selected now has reached Python already. */
  told?: boolean;
}

const KEY = Symbol.for("sglab.mirrors.v1");

/** Every bundle brings its own core: what they share is on the window. */
function sharedMirrors(): Mirrors {
  const page = globalThis as unknown as Record<symbol, Mirrors | undefined>;
  const shared = page[KEY] ?? { origins: new WeakSet(), reported: new WeakSet(), past: new WeakSet() };
  page[KEY] = shared;
  return shared;
}

/** Selects what Python knows already, because a command has told it: no message follows. */
export function selectTold(select: () => void): void {
  const shared = sharedMirrors();
  shared.told = true;
  try {
    select();
  } finally {
    shared.told = false;
  }
}

/**
 * Selections made on the page reach Python once, and those made in Python reach the page; neither comes back as an echo.
 * `connected`: whether what this model sends arrives.
 */
export function mirrorSelection(
  model: AnyModel<Traits<Common>>,
  selection: SelectionStore,
  disposer: Disposer,
  connected: () => boolean,
): void {
  const shared = sharedMirrors();
  const { origins, reported, past } = shared;
  origins.add(model);
  const fromPython = () => {
    const selected = model.get("selected") ?? {};
    const { by, turn: _, at: __, ...value } = selected;
    if (by === "python" && !past.has(selected)) selection.set(value, model);
  };
  model.on("change:selected", fromPython);
  disposer.add(() => model.off("change:selected", fromPython));
  disposer.add(
    selection.on((value, origin) => {
      if (typeof origin === "object" && origin !== null && origins.has(origin)) return;
      past.add(model.get("selected") ?? {});
      if (shared.told) reported.add(value);
      if (reported.has(value) || !connected()) return;
      reported.add(value);
      model.set("selected", { ...value, by: "page" });
      model.save_changes();
    }),
  );
  if (Object.keys(selection.value).length === 0) fromPython();
}

/**
 * The moment that a cell selected while this widget was still loading: the others have gone there, and with them its session
 * would have. `now` is where that is; once it has been moved since, whoever did so knew better.
 */
export function missedMoment(
  source: Pick<Source, "get" | "live">,
  selection: Pick<SelectionStore, "value">,
  now: number,
): number | undefined {
  if (!source.live) return undefined;
  const { by, at, moment } = source.get("selected") ?? {};
  const missed = by === "python" && at === now && moment !== now && moment === selection.value.moment;
  return missed ? moment : undefined;
}
