// Above the widget of a tab: to its notebook, into a file, to the whole screen.

import type { JupyterFrontEnd } from "@jupyterlab/application";
import { type MainAreaWidget, Notification } from "@jupyterlab/apputils";
import { Widget } from "@lumino/widgets";
import { h } from "@sglab/core";
import type { Tab } from "./tab";

/** Returns what names the notebook's path there. */
export function tabToolbar(tab: MainAreaWidget<Tab>, app: JupyterFrontEnd): (path: string) => void {
  const { content, toolbar } = tab;
  toolbar.addClass("sglab-toolbar");
  const add = (name: string, text: string, title: string, run: () => unknown) => {
    const button = h("button", { type: "button", class: "sglab-button", title }, text);
    button.addEventListener("click", run);
    toolbar.addItem(name, new Widget({ node: h("div", { class: "jp-ToolbarButton" }, button) }));
    return button;
  };
  const of = h("span", { class: "sglab-of" });
  toolbar.addItem("of", new Widget({ node: of }));
  add("notebook", "Notebook", "To the notebook that this widget belongs to", () =>
    app.commands.execute("docmanager:open", { path: content.args.path }),
  );
  add("save", "Save recording", "Write it as a .sglab file, which opens without a kernel", () =>
    save(content),
  );
  const whole = add("full-screen", "Full screen", "The whole screen; Esc leaves it", () => fullScreen(tab));
  tab.node.addEventListener("fullscreenchange", () => {
    whole.textContent = document.fullscreenElement === tab.node ? "Leave full screen" : "Full screen";
  });
  return (path) => {
    of.textContent = of.title = path.split("/").pop() ?? "";
  };
}

export function fullScreen(tab: Widget): void {
  if (document.fullscreenElement) void document.exitFullscreen();
  else
    tab.node
      .requestFullscreen()
      .catch(() => Notification.error("The browser does not let this page use the whole screen."));
}

async function save({ model, notebook }: Tab): Promise<void> {
  try {
    if (!model || !notebook)
      throw new Error("There is no widget in this tab yet, so there is nothing to save.");
    const { path, folder } = await notebook.ask("save", { model });
    Notification.info(`Saved ${path} in ${folder}`, { autoClose: 8000 });
  } catch (error) {
    Notification.error(error instanceof Error ? error.message : String(error), { autoClose: false });
  }
}
