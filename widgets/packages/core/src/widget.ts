// From a renderer to an anywidget module, and to a widget in a plain page from a saved trace.

import type { AnyModel, AnyWidget } from "@anywidget/types";
import "./core.css";
import { h } from "./dom";
import { Disposer } from "./emitter";
import { momentsOf, type Selection, type SelectionStore, selectionStore } from "./selection";
import { LiveSource, SavedSource, type SavedTrace, type Source } from "./source";

export interface Context {
  el: HTMLElement;
  source: Source;
  selection: SelectionStore;
  /** Everything added here is undone when the view goes. */
  disposer: Disposer;
}

export interface WidgetDefinition {
  name: string;
  /** The version of the traits and tensors this renderer reads; must equal the Python class's. */
  version: number;
  render: (context: Context) => void;
}

type MountSaved = (el: HTMLElement, saved: SavedTrace) => () => void;
const REGISTRY = Symbol.for("sglab.widgets.v1");

export function defineWidget(definition: WidgetDefinition): AnyWidget {
  const page = globalThis as unknown as Record<symbol, Record<string, MountSaved> | undefined>;
  page[REGISTRY] = { ...page[REGISTRY], [definition.name]: (el, saved) => mountSaved(definition, el, saved) };
  return {
    render({ model, el }) {
      return mount(definition, el, new LiveSource(model), (disposer, selection) =>
        mirrorSelection(model, selection, disposer),
      );
    },
  };
}

function mountSaved(definition: WidgetDefinition, el: HTMLElement, saved: SavedTrace): () => void {
  return mount(definition, el, new SavedSource(saved));
}

function mount(
  definition: WidgetDefinition,
  el: HTMLElement,
  source: Source,
  connect?: (disposer: Disposer, selection: SelectionStore) => void,
): () => void {
  const disposer = new Disposer();
  const selection = selectionStore(source.get<string>("scope"));
  disposer.add(() => source.dispose());
  connect?.(disposer, selection);
  const version = source.get<number>("version");
  const own = momentsOf(source.get<string>("launch_name") ?? "", selection);
  if (version === definition.version) definition.render({ el, source, selection: own, disposer });
  else el.append(wrongVersion(definition, source));
  return () => disposer.dispose();
}

function wrongVersion({ name, version }: WidgetDefinition, source: Source): HTMLElement {
  const title = source.get<{ title?: string } | undefined>("header")?.title ?? name;
  return h(
    "p",
    { class: "sg-widget sg-placeholder", role: "alert" },
    `${title} cannot show this trace: it has format ${source.get("version")}, and what draws here reads format ` +
      `${version}. Two versions of sglab have met: restart the kernel and run the cells again, or save the page ` +
      "again with one version.",
  );
}

/** Selections made on the page reach Python, and those made in Python reach the page; neither comes back as an echo. */
function mirrorSelection(model: AnyModel, selection: SelectionStore, disposer: Disposer): void {
  const fromPython = () => {
    const {
      by,
      turn: _,
      ...value
    } = (model.get("selected") ?? {}) as Selection & { by?: string; turn?: number };
    if (by === "python") selection.set(value, model);
  };
  model.on("change:selected", fromPython);
  disposer.add(() => model.off("change:selected", fromPython));
  disposer.add(
    selection.on((value, origin) => {
      if (origin === model) return;
      model.set("selected", { ...value, by: "page" });
      model.save_changes();
    }),
  );
  if (Object.keys(selection.value).length === 0) fromPython();
}
