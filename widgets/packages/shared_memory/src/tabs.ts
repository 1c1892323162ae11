// Panels of which one is shown, chosen by tabs: arrow keys move between them.

import { h, uniqueId } from "@sglab/core";

export interface Tabs {
  root: HTMLElement;
  readonly current: string;
  show(id: string): void;
}

export function tabs(
  panels: readonly (readonly [id: string, label: string, content: HTMLElement])[],
  picked: (id: string) => void,
): Tabs {
  let current = panels[0]?.[0] ?? "";
  const parts = panels.map(([id, label, content]) => {
    const panelId = uniqueId("panel");
    const tab = h(
      "button",
      { type: "button", class: "sg-button", role: "tab", id: uniqueId("tab"), "aria-controls": panelId },
      label,
    );
    const panel = h(
      "div",
      { role: "tabpanel", id: panelId, "aria-labelledby": tab.id, "data-panel": id },
      content,
    );
    tab.addEventListener("click", () => {
      show(id);
      picked(id);
    });
    return { id, tab, panel };
  });
  const list = h(
    "div",
    { class: "ssm-tabs", role: "tablist", "aria-label": "Decoders" },
    ...parts.map(({ tab }) => tab),
  );
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    const at = parts.findIndex(({ id }) => id === current);
    const next = parts[(at + step + parts.length) % parts.length];
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    next.tab.focus();
    next.tab.click();
  });
  function show(id: string): void {
    current = id;
    for (const each of parts) {
      const on = each.id === id;
      each.tab.setAttribute("aria-selected", String(on));
      each.tab.tabIndex = on ? 0 : -1;
      each.panel.hidden = !on;
    }
  }
  show(current);
  return {
    root: h("div", {}, list, ...parts.map(({ panel }) => panel)),
    get current() {
      return current;
    },
    show,
  };
}
