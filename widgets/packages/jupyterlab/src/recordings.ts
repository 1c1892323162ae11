// `.sglab` files as documents: read without a kernel, drawn by the bundles that ship with the extension.

import type { ILayoutRestorer } from "@jupyterlab/application";
import { WidgetTracker } from "@jupyterlab/apputils";
import { PageConfig } from "@jupyterlab/coreutils";
import { ABCWidgetFactory, DocumentWidget, type IContext } from "@jupyterlab/docregistry";
import { Widget } from "@lumino/widgets";
import { h } from "@sglab/core";
import type { SavedTrace } from "@sglab/protocol";
import { icon } from "./icon";
import { readRecording } from "./saved_file";

type MountSaved = (el: HTMLElement, saved: SavedTrace) => () => void;
declare const SGLAB_VERSION: string;

/** Where the widgets' bundles lie: beside this extension's own script. */
function address(file: string): string {
  return `${PageConfig.getOption("fullLabextensionsUrl")}/sglab/static/widgets/${file}?v=${SGLAB_VERSION}`;
}

const mounts = new Map<string, Promise<MountSaved>>();

/** What draws a saved widget. A bundle registers it on the page, where another version's may take its place: kept here. */
function mountOf(bundle: string): Promise<MountSaved> {
  const known = mounts.get(bundle);
  if (known) return known;
  const made = load(bundle);
  mounts.set(bundle, made);
  made.catch(() => mounts.delete(bundle));
  return made;
}

async function load(bundle: string): Promise<MountSaved> {
  document.head.append(h("link", { rel: "stylesheet", href: address(`${bundle}.css`) }));
  try {
    await import(address(`${bundle}.js`));
  } catch {
    throw new Error(
      `This sglab has no widget ${bundle}, which the recording was made of. A newer sglab may have: pip install -U sglab.`,
    );
  }
  const page = globalThis as unknown as Record<symbol, Record<string, MountSaved>>;
  return page[Symbol.for("sglab.widgets.v1")]?.[bundle] as MountSaved;
}

class RecordingView extends Widget {
  #unmount: (() => void)[] = [];

  constructor(private context: IContext) {
    super();
    this.addClass("sglab-recording");
    context.ready.then(
      () => {
        void this.#show();
        context.model.contentChanged.connect(() => void this.#show());
      },
      () => this.#say("The file could not be read."),
    );
  }

  async #show(): Promise<void> {
    try {
      const { title, widgets } = readRecording(this.context.model.toString());
      const mount = await Promise.all(widgets.map(({ widget }) => mountOf(widget)));
      if (this.isDisposed) return;
      this.#clear();
      this.title.caption = title;
      this.#unmount = widgets.map((saved, i) => {
        const place = h("div", {});
        this.node.append(place);
        return (mount[i] as MountSaved)(place, saved);
      });
    } catch (error) {
      this.#say(error instanceof Error ? error.message : String(error));
    }
  }

  #say(text: string): void {
    if (this.isDisposed) return;
    this.#clear();
    this.node.append(h("div", { class: "sglab-says", role: "alert" }, h("p", {}, text)));
  }

  #clear(): void {
    for (const unmount of this.#unmount) unmount();
    this.#unmount = [];
    this.node.replaceChildren();
  }

  override dispose(): void {
    if (this.isDisposed) return;
    this.#clear();
    super.dispose();
  }
}

export class RecordingFactory extends ABCWidgetFactory {
  protected createNewWidget(context: IContext): DocumentWidget {
    const document = new DocumentWidget({ content: new RecordingView(context), context });
    document.title.icon = icon;
    return document;
  }
}

/** Recordings that were open when the page was left come back. */
export function restoreRecordings(factory: RecordingFactory, restorer: ILayoutRestorer): void {
  const tracker = new WidgetTracker<DocumentWidget>({ namespace: "sglab-recordings" });
  factory.widgetCreated.connect((_, document) => {
    document.context.pathChanged.connect(() => void tracker.save(document));
    void tracker.add(document);
  });
  void restorer.restore(tracker, {
    command: "docmanager:open",
    args: ({ context }: DocumentWidget) => ({ path: context.path, factory: "sglab recording" }),
    name: ({ context }: DocumentWidget) => context.path,
  });
}
