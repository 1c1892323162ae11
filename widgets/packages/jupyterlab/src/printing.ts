// A widget's tab on paper: that tab alone, not the JupyterLab around it, which is as wide as the screen.

const PRINTED = "sglab-printed";

/** `current`: what is in front when the browser prints; a notebook is JupyterLab's own to print. */
export function printTabsAlone(current: () => HTMLElement | undefined): void {
  window.addEventListener("beforeprint", () =>
    current()?.querySelector(".sglab-tab, .sglab-recording")?.classList.add(PRINTED),
  );
  window.addEventListener("afterprint", () =>
    document.querySelector(`.${PRINTED}`)?.classList.remove(PRINTED),
  );
}
