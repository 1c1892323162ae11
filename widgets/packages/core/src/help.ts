// The list of keys, as a dialog.

import { h } from "./dom";
import { type KeyBinding, keyName } from "./keys";

export function showHelp(root: HTMLElement, bindings: KeyBinding[], extra: HTMLElement[] = []): void {
  if (root.querySelector(":scope > dialog")) return;
  const taken = new Set<string>();
  const heard = bindings.filter(({ keys }) => {
    const free = keys.length === 0 || keys.some((key) => !taken.has(key));
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
    h("div", { class: "sg-buttons" }, close, ...extra),
  );
  for (const button of [close, ...extra]) button.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => {
    dialog.remove();
    root.focus({ preventScroll: true });
  });
  root.append(dialog);
  dialog.showModal();
}
