// Hover text that follows the pointer or the keyboard's cell: one per widget, plain text, several lines.

import { h } from "./dom";

export interface Tooltip {
  /** Shows `text` beside a point given in client coordinates; no text hides it. */
  show(text: string | undefined, clientX: number, clientY: number): void;
  hide(): void;
}

const GAP = 12;
const MODIFIERS = ["Shift", "Control", "Alt", "Meta"];

export function makeTooltip(root: HTMLElement): Tooltip {
  const box = h("div", { class: "sg-tooltip", role: "tooltip", hidden: true });
  root.append(box);
  const hide = () => {
    box.hidden = true;
  };
  // before what the key does: it may change what lies under a resting pointer, or show a text of its own
  root.addEventListener("keydown", ({ key }) => MODIFIERS.includes(key) || hide(), true);
  return {
    show(text, clientX, clientY) {
      if (!text) return hide();
      box.textContent = text;
      box.hidden = false;
      const frame = root.getBoundingClientRect();
      const right = clientX + GAP + box.offsetWidth > frame.right;
      const below = clientY + GAP + box.offsetHeight > Math.max(frame.bottom, innerHeight);
      const left = right ? clientX - GAP - box.offsetWidth : clientX + GAP;
      const top = below ? clientY - GAP - box.offsetHeight : clientY + GAP;
      box.style.left = `${Math.max(2, left - frame.left)}px`;
      box.style.top = `${top - frame.top}px`;
    },
    hide,
  };
}
