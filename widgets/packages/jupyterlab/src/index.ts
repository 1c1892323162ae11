// The JupyterLab extension: a side panel, tabs, commands, a launcher tile, and recordings as documents.

import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin,
} from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { ILauncher } from "@jupyterlab/launcher";
import { INotebookTracker } from "@jupyterlab/notebook";
import { addCommands, addToPalette, COMMANDS, currentTab } from "./commands";
import { icon, iconUrl } from "./icon";
import style from "./jupyterlab.css";
import { kernelOf, type NotebookKernel } from "./notebook_kernel";
import { Panel } from "./panel";
import { printTabsAlone } from "./printing";
import { RecordingFactory, restoreRecordings } from "./recordings";
import { Tabs } from "./tabs";

const workbench: JupyterFrontEndPlugin = {
  id: "sglab:workbench",
  description: "Lists what a notebook's kernel has, and opens widgets on it in tabs.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ILabShell, ILayoutRestorer, ICommandPalette, ILauncher],
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    labShell: ILabShell | null,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
  ) => {
    const tabs = new Tabs(app, notebooks, icon, labShell ? "main" : "down");
    const focus = (): NotebookKernel | null => {
      const path = currentTab(app, tabs)?.content.args.path;
      const panel = (path === undefined ? undefined : tabs.panelOf(path)) ?? notebooks.currentWidget;
      return panel ? kernelOf(panel) : null;
    };
    addCommands({ app, tabs, icon, labShell, focus });
    if (palette) addToPalette(palette);
    // It begins a notebook, and in a category of its own it would lie below the screen's edge.
    launcher?.add({ command: COMMANDS.debug, category: "Notebook", rank: 1000, kernelIconUrl: iconUrl });
    if (restorer) tabs.restore(restorer, COMMANDS.restore);

    document.addEventListener("sglab:open", (event) => {
      const notebook = focus();
      if (!notebook || !(event instanceof CustomEvent)) return;
      const { widget, model } = event.detail as { widget: string; model: string };
      tabs.addBeside(notebook, { path: notebook.path, widget, name: null, model });
      event.preventDefault();
    });

    printTabsAlone(() => app.shell.currentWidget?.node);

    const panel = new Panel({
      open: (thing, widget) => {
        const notebook = focus();
        if (notebook) tabs.open(notebook, thing, widget);
      },
      debug: () => void app.commands.execute(COMMANDS.debug),
      arrange: () => void app.commands.execute(COMMANDS.arrange),
      nextFinding: () => void app.commands.execute(COMMANDS.nextFinding),
    });
    panel.title.icon = icon;
    panel.title.caption = "sglab: batches, launches, sessions and recordings";
    app.shell.add(panel, "left", { rank: 350 });
    restorer?.add(panel, panel.id);
    const follow = () => panel.follow(focus());
    notebooks.currentChanged.connect(follow);
    app.shell.currentChanged?.connect(follow);
    void app.restored.then(follow);
  },
};

const recordings: JupyterFrontEndPlugin = {
  id: "sglab:recordings",
  description: "Opens .sglab files without a kernel.",
  autoStart: true,
  optional: [ILayoutRestorer],
  activate: ({ docRegistry }: JupyterFrontEnd, restorer: ILayoutRestorer | null) => {
    docRegistry.addFileType({
      name: "sglab",
      displayName: "sglab recording",
      extensions: [".sglab"],
      mimeTypes: ["application/vnd.sglab+json"],
      contentType: "file",
      fileFormat: "text",
      icon,
    });
    const factory = new RecordingFactory({
      name: "sglab recording",
      modelName: "text",
      fileTypes: ["sglab"],
      defaultFor: ["sglab"],
      readOnly: true,
    });
    docRegistry.addWidgetFactory(factory);
    if (restorer) restoreRecordings(factory, restorer);
  },
};

document.head.append(Object.assign(document.createElement("style"), { textContent: style }));

export default [workbench, recordings];
