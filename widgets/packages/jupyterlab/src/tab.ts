// A widget in a tab of its own. It is a view of a real widget in the notebook's kernel, shown by the notebook's own widget
// manager; until there is such a widget, and whenever there is none any more, a sentence says what it waits for.

import type { NotebookPanel } from "@jupyterlab/notebook";
import { type IRenderer, MimeModel } from "@jupyterlab/rendermime";
import { Panel } from "@lumino/widgets";
import { h } from "@sglab/core";
import type { NotebookKernel } from "./notebook_kernel";
import type { Thing } from "./question";
import { nameOf, spelled } from "./words";

const MIME = "application/vnd.jupyter.widget-view+json";

/** What a tab is about, as a workspace remembers it. */
export interface TabArgs {
  /** Of the notebook; it follows a notebook that is renamed. */
  path: string;
  /** A class of sglab.widgets. */
  widget: string;
  /** What the notebook calls the thing that it opens on; null for a thing without a name. */
  name: string | null;
  /** The widget that it showed last. */
  model?: string;
}

export interface TabEvents {
  /** What the workspace remembers of it has changed. */
  changed: () => void;
  /** Its notebook has another path. */
  moved: () => void;
  /** Shows the notebook and runs its cells. */
  runCells: () => void;
}

export class Tab extends Panel {
  #thing: number | undefined;
  #view: IRenderer | null = null;
  #notebook: NotebookKernel | null = null;
  /** Of the kernel in which the shown widget lives. */
  #generation = -1;
  #opening = false;

  constructor(
    readonly args: TabArgs,
    thing: Thing | undefined,
    private events: TabEvents,
  ) {
    super();
    this.addClass("sglab-tab");
    this.#thing = thing?.number;
    this.node.addEventListener("focus", this.#handOn);
    this.#say(`Looking for the notebook ${args.path} …`);
  }

  /** What it is called on its tab. */
  get label(): string {
    const on = this.args.name ?? "";
    return on ? `${spelled(this.args.widget)}: ${on}` : spelled(this.args.widget);
  }

  get notebook(): NotebookKernel | null {
    return this.#notebook;
  }

  /** The model of the widget that it shows, while its kernel lives. */
  get model(): string | undefined {
    return this.#view && this.#generation === this.#notebook?.generation ? this.args.model : undefined;
  }

  shows(path: string, widget: string, thing: Thing): boolean {
    const same =
      this.#thing === thing.number || (this.args.name !== null && thing.names.includes(this.args.name));
    return this.args.path === path && this.args.widget === widget && same;
  }

  /** Its thing, if the notebook has it: what its name means now, which a cell that ran again has made anew. */
  get thing(): Thing | undefined {
    const things = this.#notebook?.things ?? [];
    const { name } = this.args;
    return (
      things.find(({ names }) => name !== null && names.includes(name)) ??
      things.find(({ number }) => this.#generation === this.#notebook?.generation && number === this.#thing)
    );
  }

  /** Whether its name means something else than what it shows. */
  get #renamed(): boolean {
    const { thing } = this;
    return this.#thing !== undefined && thing !== undefined && thing.number !== this.#thing;
  }

  /** From now on it follows this notebook. */
  connect(notebook: NotebookKernel): void {
    if (this.#notebook === notebook || this.isDisposed) return;
    this.#notebook = notebook;
    if (this.#thing !== undefined) this.#generation = notebook.generation;
    notebook.changed.connect(this.#look);
    notebook.panel.disposed.connect(this.#closed);
    notebook.panel.context.pathChanged.connect(this.#moved);
    this.#look();
  }

  #moved = (_: unknown, path: string): void => {
    if (this.isDisposed) return;
    this.args.path = path;
    this.events.moved();
  };

  #closed = (): void => {
    this.#notebook = null;
    this.#drop();
    this.#say(`The notebook ${this.args.path} was closed. Open it to bring this widget back.`);
  };

  #look = (): void => {
    const notebook = this.#notebook;
    if (!notebook || this.isDisposed || this.#opening) return;
    if (this.#view && this.#generation === notebook.generation && !this.#renamed) return;
    if (!notebook.state) this.#say("Asking the kernel …");
    else if (notebook.state.kind === "things") void this.#open(notebook);
    else if (!this.#view) this.#wait(notebook.state.text);
  };

  /** Until the notebook has what it shows. */
  #wait(why = ""): void {
    const { name, widget } = this.args;
    if (name)
      this.#say(`${why} ${spelled(widget)} opens here as soon as the notebook has ${name}.`.trim(), {
        text: "Run its cells",
        run: this.events.runCells,
      });
    else
      this.#say(
        `${why} ${spelled(widget)} was opened on something without a name; open it again from the panel.`.trim(),
      );
  }

  async #open(notebook: NotebookKernel): Promise<void> {
    this.#opening = true;
    try {
      const before = this.model;
      const model = await this.#modelIn(notebook);
      if (this.isDisposed || this.#notebook !== notebook) return;
      if (model) {
        await this.#show(model, notebook);
        if (before && before !== model) {
          await notebook.ask("close", { model: before });
          void notebook.refresh(); // what only that one still showed is gone
        }
        return;
      }
      if (!this.#view) this.#wait();
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      this.#say(text, { text: "Try again", run: this.#look });
    } finally {
      this.#opening = false;
    }
  }

  async #modelIn(notebook: NotebookKernel): Promise<string | null> {
    const { model, widget } = this.args;
    if (model && this.#thing === undefined) {
      const still = await notebook.ask("view", { model });
      if (still.model) {
        this.#thing = this.thing?.number;
        return still.model;
      }
    }
    const { thing } = this;
    if (!thing) return null;
    this.#thing = thing.number;
    if (!this.#view) this.#say(`Opening ${spelled(widget)} on ${nameOf(thing)} …`);
    return (await notebook.ask("open", { thing: thing.number, widget })).model;
  }

  async #show(model: string, notebook: NotebookKernel): Promise<void> {
    this.#drop();
    const view = notebook.panel.content.rendermime.createRenderer(MIME);
    const data = { [MIME]: { version_major: 2, version_minor: 0, model_id: model } };
    this.node.replaceChildren();
    this.addWidget(view);
    this.#view = view;
    this.#generation = notebook.generation;
    this.args.model = model;
    this.events.changed();
    await view.renderModel(new MimeModel({ data, trusted: true }));
    await this.#drawn(view);
    this.#handOn();
  }

  /** JupyterLab gives the focus to the tab; the keys are those of the widget in it. */
  #handOn = (): void => {
    if (document.activeElement === this.node)
      this.node.querySelector<HTMLElement>(".sg-widget")?.focus({ preventScroll: true });
  };

  /** A widget draws itself once its script has come. */
  #drawn(view: IRenderer): Promise<void> {
    return new Promise((done) => {
      const look = () => {
        if (this.#view === view && !this.node.querySelector(".sg-widget")) return;
        watcher.disconnect();
        done();
      };
      const watcher = new MutationObserver(look);
      watcher.observe(this.node, { childList: true, subtree: true });
      look();
    });
  }

  #drop(): void {
    this.#view?.dispose();
    this.#view = null;
  }

  #say(text: string, remedy?: { text: string; run: () => void }): void {
    this.#drop();
    const button = h("button", { type: "button", class: "sglab-button" }, remedy?.text);
    button.addEventListener("click", () => remedy?.run());
    this.node.replaceChildren(
      h("div", { class: "sglab-says", role: "status" }, h("p", {}, text), remedy ? button : undefined),
    );
  }

  /** Closes the widget in the kernel, too: nothing lives on for a tab that is gone. */
  override dispose(): void {
    if (this.isDisposed) return;
    const { model } = this;
    this.#notebook?.changed.disconnect(this.#look);
    this.#notebook?.panel.context.pathChanged.disconnect(this.#moved);
    if (model) this.#notebook?.ask("close", { model }).catch(() => undefined);
    this.#drop();
    super.dispose();
  }
}

/** A notebook that is open in this page. */
export type FindPanel = (path: string) => NotebookPanel | undefined;
