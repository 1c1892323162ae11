// All tabs of the page: opened, found again, connected to their notebooks, remembered by the workspace.

import type { ILayoutRestorer, JupyterFrontEnd, Placement } from "@jupyterlab/application";
import { MainAreaWidget, WidgetTracker } from "@jupyterlab/apputils";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import type { LabIcon } from "@jupyterlab/ui-components";
import type { Widget } from "@lumino/widgets";
import { kernelOf, type NotebookKernel } from "./notebook_kernel";
import type { Thing } from "./question";
import { Tab, type TabArgs } from "./tab";
import { tabToolbar } from "./tab_toolbar";

export type TabWidget = MainAreaWidget<Tab>;
let counter = 0;

export class Tabs {
  readonly #tracker = new WidgetTracker<TabWidget>({ namespace: "sglab" });
  readonly #beside = new Map<string, TabWidget>();

  constructor(
    private app: JupyterFrontEnd,
    private notebooks: INotebookTracker,
    private icon: LabIcon,
    /** Of the shell: Notebook 7 has one document in its main area, and no place beside it. */
    private area: string,
  ) {
    notebooks.widgetAdded.connect((_, panel) => this.#connect(panel));
  }

  /** The tab that was focused last. */
  get current(): TabWidget | null {
    return this.#tracker.currentWidget;
  }

  /** Whether tabs lie below a notebook, which stays the shell's current widget while one of them has the focus. */
  get below(): boolean {
    return this.area === "down";
  }

  /** A tab with this widget; the one that is open, if there is one, which goes to the place that is asked for. */
  open(notebook: NotebookKernel, thing: Thing, widget: string, place: Placement = {}): TabWidget {
    const found = this.#tracker.find(({ content }) => content.shows(notebook.path, widget, thing));
    if (found) {
      if (place.mode) this.app.shell.add(found, this.area, place);
      this.app.shell.activateById(found.id);
      return found;
    }
    const args = { path: notebook.path, widget, name: thing.names[0] ?? null };
    return this.add(
      args,
      thing,
      place.mode ? place : { ...place, ref: notebook.panel.id, mode: "tab-after" },
    );
  }

  /** What a press in a notebook made: right of it, the second and all later ones in the same place, as tabs. */
  addBeside(notebook: NotebookKernel, args: TabArgs): void {
    const before = this.#beside.get(notebook.path);
    const place: Placement =
      before && !before.isDisposed
        ? { ref: before.id, mode: "tab-after" }
        : { ref: notebook.panel.id, mode: "split-right" };
    this.#beside.set(notebook.path, this.add(args, undefined, place));
  }

  add(args: TabArgs, thing?: Thing, place: Placement = {}): TabWidget {
    const content = new Tab({ ...args }, thing, {
      changed: () => void this.#tracker.save(tab),
      moved: () => {
        names();
        void this.#tracker.save(tab);
      },
      runCells: () => void this.#runCells(content.args.path),
    });
    const tab: TabWidget = new MainAreaWidget({ content });
    counter += 1;
    tab.id = `sglab-tab-${counter}`;
    tab.title.label = content.label;
    tab.title.icon = this.icon;
    tab.title.closable = true;
    const named = tabToolbar(tab, this.app);
    const names = () => {
      tab.title.caption = `${content.label} (${content.args.path})`;
      named(content.args.path);
    };
    names();
    this.app.shell.add(tab, this.area, place);
    void this.#tracker.add(tab);
    const panel = this.panelOf(args.path);
    if (panel) content.connect(kernelOf(panel));
    this.app.shell.activateById(tab.id);
    if (this.below) giveRoom(tab);
    return tab;
  }

  panelOf(path: string): NotebookPanel | undefined {
    return this.notebooks.find(({ context }) => context.path === path);
  }

  /** What was open when the page, or a workspace, was left comes back. */
  restore(restorer: ILayoutRestorer, command: string): void {
    void restorer.restore(this.#tracker, {
      command,
      args: ({ content }: TabWidget) => ({ ...content.args }),
      name: ({ content, id }: TabWidget) =>
        `${content.args.path}:${content.args.widget}:${content.args.name ?? id}`,
    });
  }

  async #runCells(path: string): Promise<void> {
    await this.app.commands.execute("docmanager:open", { path });
    await this.panelOf(path)?.sessionContext.ready; // without a kernel the command does nothing
    await this.app.commands.execute("notebook:run-all-cells");
  }

  /** A notebook that was opened after tabs of it were restored. */
  #connect(panel: NotebookPanel): void {
    this.#tracker.forEach(({ content }) => {
      if (content.args.path === panel.context.path) content.connect(kernelOf(panel));
    });
  }
}

/** Notebook 7 opens the area below its notebook without a height. */
function giveRoom(tab: Widget): void {
  let around: (Widget & Partial<Split>) | null = tab;
  while (around && !around.setRelativeSizes) around = around.parent;
  if ((around?.relativeSizes?.()[1] ?? 1) < 0.2) around?.setRelativeSizes?.([0.5, 0.5]);
}

/** Of a Lumino SplitPanel. */
interface Split {
  relativeSizes(): number[];
  setRelativeSizes(sizes: number[]): void;
}
