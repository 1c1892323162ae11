// Names with values, as details panes list them.

import { h } from "./dom";

/** A list that looks the same everywhere: JupyterLab has rules of its own for `dl`, which the class outweighs. */
export function definitions(rows: readonly (readonly [term: string, value: Node | string])[]): HTMLElement {
  return h(
    "dl",
    { class: "sg-definitions" },
    ...rows.flatMap(([term, value]) => [h("dt", {}, term), h("dd", {}, value)]),
  );
}
