// From a renderer to an anywidget module, and to a widget in a plain page from a saved trace.

import type { AnyModel, AnyWidget } from "@anywidget/types";
import type { AnySource, Common, Protocol, SavedTrace, Source, Traits } from "@sglab/protocol";
import "./core.css";
import { h } from "./dom";
import { Disposer } from "./emitter";
import { historyOf, remembered } from "./history";
import { keepPicture } from "./kept_picture";
import { mirrorSelection } from "./mirror";
import { momentsOf, type SelectionStore, selectionStore } from "./selection";
import { LiveSource, SavedSource } from "./source";

type Identity = Pick<Protocol, "name" | "version">;

export interface Context<D extends Common = Common> {
  el: HTMLElement;
  source: Source<D>;
  selection: SelectionStore;
  /** Everything added here is undone when the view goes. */
  disposer: Disposer;
}

/** Name and version are those of the protocol, whose declaration thus need not be in the bundle. */
export interface WidgetDefinition<P extends Common & Identity> {
  name: P["name"];
  version: P["version"];
  render: (context: Context<P>) => void;
}

type MountSaved = (el: HTMLElement, saved: SavedTrace) => () => void;
const REGISTRY = Symbol.for("sglab.widgets.v1");

export function defineWidget<P extends Common & Identity>(definition: WidgetDefinition<P>): AnyWidget {
  const page = globalThis as unknown as Record<symbol, Record<string, MountSaved> | undefined>;
  const mountSaved: MountSaved = (el, saved) => mount(definition, el, new SavedSource(saved));
  page[REGISTRY] = { ...page[REGISTRY], [definition.name]: mountSaved };
  return {
    render({ model, el }) {
      const source = new LiveSource(model);
      return mount(definition, el, source, (disposer, selection) => {
        const connected = () => source.connection !== "lost";
        mirrorSelection(model as AnyModel<Traits<Common>>, selection, disposer, connected);
        keepPicture(el, assume<Common>(source), disposer);
      });
    },
  };
}

function mount<P extends Common & Identity>(
  definition: WidgetDefinition<P>,
  el: HTMLElement,
  any: AnySource,
  connect?: (disposer: Disposer, selection: SelectionStore) => void,
): () => void {
  const source: Source = assume<Common>(any);
  const disposer = new Disposer();
  const selection = selectionStore(source.get("scope"));
  disposer.add(() => source.dispose());
  connect?.(disposer, selection);
  const own = remembered(momentsOf(source.get("launch_name") ?? "", selection), historyOf(disposer));
  if (source.get("version") === definition.version)
    definition.render({ el, source: assume<P>(any), selection: own, disposer });
  else el.append(wrongVersion(definition, source));
  return () => disposer.dispose();
}

/** That a source is what a protocol says is known once the versions agree. */
function assume<D extends Common>(source: AnySource): Source<D> {
  return source as unknown as Source<D>;
}

function wrongVersion({ name, version }: Identity, source: Source): HTMLElement {
  const title = source.get("header")?.title ?? name;
  return h(
    "p",
    { class: "sg-widget sg-placeholder", role: "alert" },
    `${title} cannot show this trace: it has format ${source.get("version")}, and what draws here reads format ` +
      `${version}. Two versions of sglab have met: restart the kernel and run the cells again, or save the page ` +
      "again with one version.",
  );
}
