// A widget that Python has made shown where it can be: in a tab of JupyterLab, or as a page of its own behind a link.

import { h } from "@sglab/core";

export interface Opened {
  widget: string;
  title: string;
  /** Of the live widget. */
  model: string;
  /** A self-contained page of it. */
  page: string;
}

/** Asks the page around for a tab, which sglab's JupyterLab extension makes. Returns whether there is one now. */
export function openTab(root: HTMLElement, { widget, title, model }: Opened): boolean {
  const asked = new CustomEvent("sglab:open", {
    bubbles: true,
    cancelable: true,
    detail: { widget, title, model },
  });
  return !root.dispatchEvent(asked);
}

/** A link to the page; what it holds is let go of by the returned function. */
export function pageLink({ title, page }: Opened): { element: HTMLElement; release: () => void } {
  const href = URL.createObjectURL(new Blob([page], { type: "text/html" }));
  const element = h("a", { href, target: "_blank", rel: "noopener", class: "sge-page" }, `${title} ↗`);
  return { element, release: () => URL.revokeObjectURL(href) };
}
