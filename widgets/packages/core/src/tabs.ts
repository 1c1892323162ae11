// A row of tabs, each with a count, over one panel.

import { h, setAttributes, uniqueId } from "./dom";
import type { Disposer } from "./emitter";

export interface Tab {
  id: string;
  label: string;
  panel: HTMLElement;
}

export class Tabs {
  readonly element: HTMLElement;
  #buttons = new Map<string, HTMLButtonElement>();
  #labels = new Map<string, string>();

  constructor(
    private tabs: Tab[],
    label: string,
    disposer: Disposer,
    private opened: (id: string) => void = () => {},
  ) {
    const list = h("div", { class: "sg-tabs", role: "tablist", "aria-label": label });
    for (const { id, label: text, panel } of tabs) {
      panel.id = uniqueId(id);
      const button = h("button", { type: "button", class: "sg-tab", role: "tab", id: uniqueId("tab") }, text);
      button.setAttribute("aria-controls", panel.id);
      panel.setAttribute("role", "tabpanel");
      panel.setAttribute("aria-labelledby", button.id);
      panel.tabIndex = 0;
      disposer.listen(button, "click", () => this.open(id));
      this.#buttons.set(id, button);
      this.#labels.set(id, text);
      list.append(button);
    }
    disposer.listen(list, "keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      const here = tabs.findIndex(({ id }) => id === this.current);
      const next = tabs[(here + step + tabs.length) % tabs.length] as Tab;
      this.open(next.id);
      this.#buttons.get(next.id)?.focus();
    });
    this.element = h("section", { class: "sg-tabbed" }, list, ...tabs.map(({ panel }) => panel));
    this.open((tabs[0] as Tab).id);
  }

  current = "";

  open(wanted: string): void {
    this.current = wanted;
    for (const { id, panel } of this.tabs) {
      const chosen = id === wanted;
      panel.hidden = !chosen;
      const button = this.#buttons.get(id);
      button?.setAttribute("aria-selected", String(chosen));
      if (button) button.tabIndex = chosen ? 0 : -1;
    }
    this.opened(wanted);
  }

  /** Opens the tab after the one that is open, however that was opened; after the last the first. */
  next(): void {
    const here = this.tabs.findIndex(({ id }) => id === this.current);
    this.open((this.tabs[(here + 1) % this.tabs.length] as Tab).id);
  }

  /** Shows how much there is behind a tab. */
  count(id: string, count: number, alarming = false): void {
    const button = this.#buttons.get(id);
    if (!button) return;
    const text = `${this.#labels.get(id)}${count ? ` ${count}` : ""}`;
    if (button.textContent !== text) button.textContent = text;
    setAttributes(button, { "data-alarming": alarming && count > 0 ? "true" : "false" });
  }
}
