// One selection per notebook, shared by every widget on the page although each bundle carries its own core.
// It therefore lives on the window, behind a symbol, in a form that later versions can still read.

import type { Selection } from "@sglab/protocol";

export type Facet = keyof Selection;

/** `origin` says who selected, so that a widget can tell its own selection from others'. */
export interface SelectionStore {
  readonly value: Selection;
  set(next: Selection, origin?: unknown): void;
  on(listener: (value: Selection, origin: unknown) => void): () => void;
}

/** Addresses in a CTA's own memory. */
const IN_CTA = /^(smem|tmem)/;
const KEY = Symbol.for("sglab.selection.v1");

type Registry = Map<string, SelectionStore>;

function makeStore(): SelectionStore {
  let value: Selection = {};
  const listeners = new Set<(value: Selection, origin: unknown) => void>();
  return {
    get value() {
      return value;
    },
    set(next, origin) {
      const clean = withoutHoles(next);
      if (sameSelection(clean, value)) return;
      value = Object.freeze(clean);
      for (const listener of [...listeners]) listener(value, origin);
    },
    on(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** The store of one notebook; `scope` names its kernel, or the saved page. */
export function selectionStore(scope: string): SelectionStore {
  const page = globalThis as unknown as Record<symbol, Registry | undefined>;
  const registry = page[KEY] ?? new Map<string, SelectionStore>();
  page[KEY] = registry;
  const store = registry.get(scope) ?? makeStore();
  registry.set(scope, store);
  return store;
}

/**
 * The store as widgets of one launch see it: a notebook may show several, and a moment of one, or a place in its shared or
 * tensor memory, is none of another's. Whoever selects these without naming a launch means all.
 */
export function momentsOf(launch: string, store: SelectionStore): SelectionStore {
  if (!launch) return store;
  let [raw, own]: Selection[] = [{}, {}];
  const seen = (value: Selection): Selection => {
    if (value === raw) return own as Selection;
    const { launch: whose, ...all } = value;
    raw = value;
    own = whose === undefined || whose === launch ? all : withoutLaunchs(all);
    return own;
  };
  return {
    get value() {
      return seen(store.value);
    },
    set: (next, origin) => store.set(isOfLaunch(next) ? { ...next, launch } : next, origin),
    on: (listener) => store.on((value, origin) => listener(seen(value), origin)),
  };
}

function isOfLaunch({ moment, address }: Selection): boolean {
  return moment !== undefined || (address !== undefined && IN_CTA.test(address));
}

function withoutLaunchs({ moment: _, address, ...rest }: Selection): Selection {
  return address === undefined || IN_CTA.test(address) ? rest : { ...rest, address };
}

/**
 * The store as a widget sees it whose requests have names: elsewhere the same request may have another number, and the same
 * number may be another request. `names` gives the widget's own, in their order; none, where it has no names.
 */
export function requestsOf(names: () => readonly string[], store: SelectionStore): SelectionStore {
  let [raw, listed, own]: [Selection, readonly string[], Selection] = [{}, [], {}];
  const seen = (value: Selection): Selection => {
    if (value.rid === undefined) return value;
    const now = names();
    if (now.length === 0) return value; // numbers are all that it has
    if (value === raw && now === listed) return own;
    [raw, listed, own] = [value, now, numbered(value, now.indexOf(value.rid))];
    return own;
  };
  return {
    get value() {
      return seen(store.value);
    },
    set: (next, origin) => store.set({ ...next, rid: names()[next.request ?? -1] }, origin),
    on: (listener) => store.on((value, origin) => listener(seen(value), origin)),
  };
}

/** What is a request's alone goes with one that the widget does not have. */
function numbered({ rid: _, request: __, ...rest }: Selection, request: number): Selection {
  if (request >= 0) return { ...rest, request };
  const { token: ___, tokens: ____, split: _____, ...others } = rest;
  return others;
}

function withoutHoles(selection: Selection): Selection {
  return Object.fromEntries(
    Object.entries(selection).filter(([, value]) => value !== undefined && value !== null),
  );
}

export function sameSelection(a: Selection, b: Selection): boolean {
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]) as Set<Facet>;
  return [...keys].every((key) => a[key] === b[key]);
}
