// The keyboard: Transport.keys() and the frame give the common map, a widget adds its own.

export interface KeyBinding {
  /** As in KeyboardEvent.key, with "Shift+" before arrows: ["ArrowRight"], ["Shift+ArrowLeft"], ["b"]; "Ctrl+" is Cmd, too. */
  keys: string[];
  /** How the help names the keys, where the plain names would not do. */
  shown?: string;
  label: string;
  /** Absent where the keys are handled elsewhere and only the help needs them. */
  run?: () => void;
}

const SHOWN: Record<string, string> = {
  " ": "Space",
  ArrowLeft: "←",
  ArrowRight: "→",
  ArrowUp: "↑",
  ArrowDown: "↓",
  Escape: "Esc",
};

export function keyName(binding: KeyBinding): string {
  if (binding.shown) return binding.shown;
  return binding.keys
    .map((key) =>
      key
        .split("+")
        .map((part) => SHOWN[part] ?? part)
        .join("+"),
    )
    .join(" or ");
}

/** The name of what was pressed, as in KeyBinding. */
export function pressed(event: KeyboardEvent): string {
  if (event.ctrlKey || event.metaKey)
    return `Ctrl+${event.shiftKey ? "Shift+" : ""}${event.key.toLowerCase()}`;
  return event.shiftKey && event.key.startsWith("Arrow") ? `Shift+${event.key}` : event.key;
}

const UNTYPED = ["range", "checkbox", "radio", "button"]; // inputs without a history of their own

/** Whether the focused element needs this key itself. */
function keepsKey(target: EventTarget | null, key: string): boolean {
  if (!(target instanceof Element)) return false;
  if (target.closest("dialog")) return true;
  if (key === "Escape") return false;
  const typed = target.closest("textarea, [contenteditable]") !== null;
  if (key.startsWith("Ctrl+"))
    return typed || (target instanceof HTMLInputElement && !UNTYPED.includes(target.type));
  if (target instanceof HTMLInputElement) return target.type !== "range" && target.type !== "checkbox";
  if (typed || target.closest("select")) return true;
  if (target.closest("[role=tab], [role=radio], [role=separator]") && key.startsWith("Arrow")) return true;
  return (key === " " || key === "Enter") && target.closest("button, summary, a") !== null;
}

/** Saving, the command palette, the side bar: in a widget, too. Ctrl+C, Ctrl+A, Ctrl+Z would be of cells, not of its text. */
function isHosts({ ctrlKey, metaKey, altKey, shiftKey, key }: KeyboardEvent): boolean {
  if (!(ctrlKey || metaKey) || altKey) return false;
  return (shiftKey ? ["c"] : ["s", "b"]).includes(key.toLowerCase());
}

/** Handles keys while `root` or something in it has focus. Returns the function that stops. */
export function attachKeys(root: HTMLElement, bindings: () => KeyBinding[]): () => void {
  // JupyterLab reads keys in the capture phase, where `b` would insert a cell; this attribute is its opt-out.
  const suppress = (suppressed: boolean) => root.toggleAttribute("data-lm-suppress-shortcuts", suppressed);
  suppress(true);
  const before = (event: KeyboardEvent) => suppress(!isHosts(event));
  window.addEventListener("keydown", before, { capture: true });
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.altKey || event.defaultPrevented) return;
    const key = pressed(event);
    if (!key.startsWith("Ctrl+")) event.stopPropagation();
    if (keepsKey(event.target, key)) return;
    const binding = bindings().find((candidate) => candidate.keys.includes(key));
    if (!binding?.run) return;
    event.stopPropagation();
    event.preventDefault();
    binding.run();
  };
  root.addEventListener("keydown", onKeyDown);
  return () => {
    root.removeEventListener("keydown", onKeyDown);
    window.removeEventListener("keydown", before, { capture: true });
  };
}
