// The extension's commands. Those with a label are in the command palette.

import type { ILabShell, JupyterFrontEnd } from "@jupyterlab/application";
import { Dialog, type ICommandPalette, InputDialog, Notification, showDialog } from "@jupyterlab/apputils";
import type { LabIcon } from "@jupyterlab/ui-components";
import { arrangement } from "./arrangement";
import type { NotebookKernel } from "./notebook_kernel";
import { starterNotebook } from "./starter";
import type { TabArgs } from "./tab";
import { fullScreen } from "./tab_toolbar";
import type { Tabs, TabWidget } from "./tabs";
import { choices, newestToDebug } from "./words";

export const COMMANDS = {
  debug: "sglab:debug-kernel",
  openOn: "sglab:open-widget-on",
  nextFinding: "sglab:next-finding",
  arrange: "sglab:arrange",
  fullScreen: "sglab:full-screen",
  restore: "sglab:restore-tab",
} as const;

export interface Surroundings {
  app: JupyterFrontEnd;
  tabs: Tabs;
  icon: LabIcon;
  labShell: ILabShell | null;
  /** The notebook in focus, that of a focused tab included. */
  focus: () => NotebookKernel | null;
}

export function addCommands({ app, tabs, icon, labShell, focus }: Surroundings): void {
  const { commands } = app;
  const things = () => focus()?.things ?? [];
  const nothing = (what: string) =>
    Notification.info(`${what} Run cells that make one first.`, { autoClose: 6000 });

  commands.addCommand(COMMANDS.debug, {
    label: "Debug a kernel",
    caption: "The debugger on the notebook's newest launch; without one, a notebook to begin with",
    icon,
    execute: async ({ cwd }) => {
      const [notebook, thing] = [focus(), newestToDebug(things())];
      if (notebook && thing && cwd === undefined) return tabs.open(notebook, thing, "KernelDebugger");
      if (notebook?.busy && cwd === undefined)
        return Notification.info(
          "Cells of this notebook still run. Debug a kernel once they have made a launch.",
          {
            autoClose: 6000,
          },
        );
      return openStarter(app, typeof cwd === "string" ? cwd : "");
    },
  });

  commands.addCommand(COMMANDS.openOn, {
    label: "Open a widget on…",
    caption: "Choose what to look at, and how",
    execute: async () => {
      const notebook = focus();
      const all = choices(things());
      if (!notebook || !all.length)
        return nothing("No batch, launch, session or recording is there to look at.");
      const items = all.map(({ label }) => label);
      const { button, value } = await InputDialog.getItem({
        title: "Open a widget on…",
        items,
        okLabel: "Open",
      });
      const chosen = button.accept ? all.find(({ label }) => label === value) : undefined;
      return chosen && tabs.open(notebook, chosen.thing, chosen.widget);
    },
  });

  commands.addCommand(COMMANDS.nextFinding, {
    label: "Next finding",
    caption: "Moves the launch to the next thing that its sanitizers found",
    execute: async () => {
      const notebook = focus();
      const shown = currentTab(app, tabs)?.content.thing;
      const thing = shown?.widgets.includes("KernelDebugger") ? shown : newestToDebug(things());
      if (!notebook || !thing) return nothing("No launch or session is there to look for findings in.");
      try {
        const answer = await notebook.ask("next_finding", { thing: thing.number });
        return say(answer.said);
      } catch (error) {
        return Notification.error(error instanceof Error ? error.message : String(error), {
          autoClose: false,
        });
      }
    },
  });

  commands.addCommand(COMMANDS.arrange, {
    label: "Arrange page table, plan, timeline and debugger",
    caption: "As in a debugger; on the newest batch and launch",
    execute: () => {
      const notebook = focus();
      const places = arrangement(things());
      if (!notebook || !places.length) return nothing("No batch or launch is there to arrange.");
      labShell?.collapseLeft();
      const opened: string[] = [];
      for (const { thing, widget, mode, beside } of places) {
        const ref = opened[beside] ?? notebook.panel.id;
        opened.push(tabs.open(notebook, thing, widget, mode ? { mode, ref } : { ref }).id);
      }
      return undefined;
    },
  });

  commands.addCommand(COMMANDS.fullScreen, {
    label: "Full screen",
    caption: "The focused sglab tab on the whole screen; Esc leaves it",
    execute: () => {
      const tab = currentTab(app, tabs);
      if (tab) fullScreen(tab);
    },
  });

  commands.addCommand(COMMANDS.restore, {
    execute: (args) => tabs.add(args as unknown as TabArgs, undefined, { activate: false }),
  });
}

/** A notification shows so many characters of a text, and what would mend a finding stands at its end. */
const SHOWN = 140;

/** The finding that was said last: it goes when the next comes, so that no pile of them covers the code. */
let said: string | undefined;

function say(text: string): string {
  if (said !== undefined) Notification.dismiss(said);
  const callback = () => void showDialog({ title: "Finding", body: text, buttons: [Dialog.okButton()] });
  const actions = text.length > SHOWN ? [{ label: "Whole text", callback }] : undefined;
  said = Notification.info(text, { autoClose: 12000, actions });
  return said;
}

export function addToPalette(palette: ICommandPalette): void {
  for (const command of Object.values(COMMANDS))
    if (command !== COMMANDS.restore) palette.addItem({ command, category: "sglab" });
}

/** The tab in focus; below a notebook, the one that had it last. */
export function currentTab(app: JupyterFrontEnd, tabs: Tabs): TabWidget | null {
  const { current } = tabs;
  const inFront = tabs.below ? current?.isVisible : current === app.shell.currentWidget;
  return inFront ? current : null;
}

async function openStarter({ serviceManager, commands }: JupyterFrontEnd, folder: string): Promise<unknown> {
  const { contents, kernelspecs } = serviceManager;
  const name = kernelspecs.specs?.default ?? "python3";
  const spec = kernelspecs.specs?.kernelspecs[name];
  const kernel = { name, display_name: spec?.display_name ?? name, language: spec?.language ?? "python" };
  const { path } = await contents.newUntitled({ path: folder, type: "notebook" });
  await contents.save(path, { type: "notebook", format: "json", content: starterNotebook(kernel) });
  return commands.execute("docmanager:open", { path });
}
