// Light or dark, and the colours a canvas needs as strings. DOM and SVG use the CSS variables of core.css directly.

import type { Disposer } from "./emitter";
import { REDRAW } from "./pixels";

export interface Theme {
  dark: boolean;
  text: string;
  muted: string;
  background: string;
  surface: string;
  border: string;
  focus: string;
  error: string;
  warning: string;
  uiFont: string;
  codeFont: string;
}

/** JupyterLab says it on the body, VS Code by a class; elsewhere the page's own choice or the system's. */
function isDark(root: HTMLElement): boolean {
  if (root.dataset.paper) return false;
  const { body } = document;
  const lab = body.dataset.jpThemeLight;
  if (lab !== undefined) return lab === "false";
  if (body.dataset.vscodeThemeKind !== undefined)
    return body.dataset.vscodeThemeKind.includes("dark") || body.matches(".vscode-high-contrast");
  const chosen = root.closest<HTMLElement>("[data-sg-theme]")?.dataset.sgTheme;
  if (chosen !== undefined) return chosen === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

function readTheme(root: HTMLElement): Theme {
  const style = getComputedStyle(root);
  const read = (name: string) => style.getPropertyValue(`--sg-${name}`).trim();
  return {
    dark: root.dataset.dark === "true",
    text: read("text"),
    muted: read("muted"),
    background: read("background"),
    surface: read("surface"),
    border: read("border"),
    focus: read("focus"),
    error: read("error"),
    warning: read("warning"),
    uiFont: read("ui-font"),
    codeFont: read("code-font"),
  };
}

const ATTRIBUTES = [
  "data-jp-theme-light",
  "data-jp-theme-name",
  "data-vscode-theme-kind",
  "data-sg-theme",
  "class",
];
/** A host may announce a theme before its style sheet has arrived. */
const SETTLE_MS = 300;

/** Keeps `root` in step with the page's theme, calls `changed` after each change, and returns the theme to draw with. */
export function watchTheme(root: HTMLElement, disposer: Disposer, changed: () => void): () => Theme {
  let known: Theme | undefined;
  let settled: ReturnType<typeof setTimeout> | undefined;
  const apply = () => {
    known = undefined;
    root.dataset.dark = String(isDark(root));
  };
  const update = () => {
    apply();
    changed();
  };
  const updateTwice = () => {
    update();
    clearTimeout(settled);
    settled = setTimeout(update, SETTLE_MS);
  };
  apply();
  root.addEventListener(REDRAW, update);
  const observer = new MutationObserver(updateTwice);
  const watched = { attributes: true, attributeFilter: ATTRIBUTES };
  observer.observe(document.body, watched);
  observer.observe(document.documentElement, watched);
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", updateTwice);
  disposer.add(() => {
    observer.disconnect();
    root.removeEventListener(REDRAW, update);
    clearTimeout(settled);
    system.removeEventListener("change", updateTwice);
  });
  return () => {
    if (known) return known;
    if (root.isConnected) apply();
    const theme = readTheme(root);
    // JupyterLab renders before it attaches: until then there are no colours to keep.
    if (root.isConnected) known = theme;
    return theme;
  };
}
