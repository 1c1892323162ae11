// The frame of every widget: header, toolbar, view, details, transport; and what it says when there is nothing to show.

import type { Header, Source } from "@sglab/protocol";
import { DISCONNECTED } from "./channel";
import { h, uniqueId } from "./dom";
import type { Disposer } from "./emitter";
import { attachKeys, type KeyBinding, keyName } from "./keys";
import { makeTooltip, type Tooltip } from "./tooltip";
import type { Transport } from "./transport";
import { transportView } from "./transport_view";

/** A sentence that takes the view's place. `progress` runs from 0 to 1; absent, it is unknown. */
export interface Placeholder {
  kind: "empty" | "loading" | "error";
  text: string;
  /** What to do about it. */
  remedy?: string;
  progress?: number;
}

export interface Frame {
  readonly root: HTMLElement;
  readonly toolbar: HTMLElement;
  readonly view: HTMLElement;
  readonly details: HTMLElement;
  readonly tooltip: Tooltip;
  setHeader(header: Header): void;
  /** Shows a sentence instead of the view, or the view again. */
  setPlaceholder(placeholder: Placeholder | null): void;
  /** A message above the view that leaves the view as it is; the reader dismisses it. */
  notify(kind: "error" | "info", text: string): void;
  clearNotice(): void;
}

export interface FrameOptions {
  /** Its connection is shown: waiting for Python, or Python gone. */
  source?: Source;
  transport?: Transport;
  keys?: () => KeyBinding[];
  /** What Esc does besides closing messages. */
  onEscape?: () => void;
}

export function makeFrame(el: HTMLElement, disposer: Disposer, options: FrameOptions = {}): Frame {
  const title = h("strong", { class: "sg-title", id: uniqueId("title") });
  const subject = h("span", { class: "sg-subject" });
  const badge = h("span", { class: "sg-badge" });
  const waiting = h("span", { class: "sg-waiting", role: "status" });
  const help = h(
    "button",
    { type: "button", class: "sg-button sg-help", "aria-label": "Keys (?)", title: "Keys (?)" },
    "?",
  );
  const toolbar = h("div", { class: "sg-toolbar" });
  const notice = h("div", { class: "sg-notice", role: "alert" });
  const placeholder = h("div", { class: "sg-placeholder", role: "status" });
  const view = h("div", { class: "sg-view" });
  const details = h("aside", { class: "sg-details", "aria-label": "Selection" });
  const body = h("div", { class: "sg-body" }, view, details);
  const root = h(
    "section",
    { class: "sg-widget", tabindex: 0, "aria-labelledby": title.id },
    h("header", { class: "sg-header" }, title, subject, waiting, badge, help),
    toolbar,
    notice,
    placeholder,
    body,
  );
  if (options.transport) root.append(transportView(options.transport, disposer));

  const frame: Frame = {
    root,
    toolbar,
    view,
    details,
    tooltip: makeTooltip(root),
    setHeader(header) {
      title.textContent = header.title;
      subject.textContent = header.subject;
      subject.title = header.subject;
      badge.textContent = header.badge.text;
      badge.title = header.badge.title;
    },
    setPlaceholder(shown) {
      placeholder.replaceChildren(...(shown ? placeholderParts(shown) : []));
      placeholder.dataset.kind = shown?.kind ?? "";
      body.hidden = shown !== null;
    },
    notify(kind, text) {
      const dismiss = h("button", { type: "button", class: "sg-button", "aria-label": "Dismiss (Esc)" }, "✕");
      dismiss.addEventListener("click", frame.clearNotice);
      notice.dataset.kind = kind;
      notice.replaceChildren(h("span", {}, text), dismiss);
    },
    clearNotice() {
      notice.replaceChildren();
    },
  };

  const bindings = (): KeyBinding[] => [
    ...(options.keys?.() ?? []),
    ...(options.transport?.keys() ?? []),
    {
      keys: ["Escape"],
      label: "clear the selection and messages",
      run: () => {
        frame.clearNotice();
        options.onEscape?.();
      },
    },
    { keys: ["?"], label: "show these keys", run: () => showHelp(root, bindings()) },
  ];
  if (options.source) disposer.add(showConnection(options.source, frame, waiting));
  disposer.listen(help, "click", () => showHelp(root, bindings()));
  disposer.add(attachKeys(root, bindings));
  disposer.add(() => root.remove());
  el.append(root);
  return frame;
}

function showConnection(source: Source, frame: Frame, waiting: HTMLElement): () => void {
  return source.onConnection((connection) => {
    frame.root.dataset.connection = connection;
    waiting.textContent = connection === "waiting" ? "waiting for Python: busy or gone" : "";
    if (connection === "lost") frame.notify("error", DISCONNECTED);
  });
}

const SIGNS = { empty: "∅", loading: "…", error: "▲" };

function placeholderParts({ kind, text, remedy, progress }: Placeholder): HTMLElement[] {
  const parts: HTMLElement[] = [
    h("p", {}, h("span", { class: "sg-sign", "aria-hidden": "true" }, SIGNS[kind]), ` ${text}`),
  ];
  if (remedy) parts.push(h("p", { class: "sg-remedy" }, remedy));
  if (kind === "loading") parts.push(h("progress", { max: 1, value: progress, "aria-label": "Progress" }));
  return parts;
}

function showHelp(root: HTMLElement, bindings: KeyBinding[]): void {
  if (root.querySelector(":scope > dialog")) return;
  const taken = new Set<string>();
  const heard = bindings.filter(({ keys }) => {
    const free = keys.some((key) => !taken.has(key));
    for (const key of keys) taken.add(key);
    return free; // a widget's own meaning of a key comes first
  });
  const rows = heard.map((binding) =>
    h("tr", {}, h("td", {}, h("kbd", {}, keyName(binding))), h("td", {}, binding.label)),
  );
  const close = h("button", { type: "button", class: "sg-button" }, "Close");
  const dialog = h(
    "dialog",
    { class: "sg-dialog", "aria-label": "Keys" },
    h("p", {}, "While the widget has focus:"),
    h("table", {}, h("tbody", {}, ...rows)),
    close,
  );
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => {
    dialog.remove();
    root.focus({ preventScroll: true });
  });
  root.append(dialog);
  dialog.showModal();
}
