// The toolbar: which cluster, zoom, search.

import { type Disposer, h } from "@sglab/core";
import type { AxisChoice } from "@sglab/launch/axis_choice";
import { ClusterChoice } from "@sglab/launch/cluster_choice";
import type { LaunchMeta } from "@sglab/launch/data";

export interface ControlActions {
  show: (cluster: number) => void;
  zoom: (factor: number) => void;
  whole: () => void;
  /** Goes to the next match and says which of how many it is. */
  search: (query: string, direction: 1 | -1) => string;
}

export function makeControls(disposer: Disposer, axis: AxisChoice, actions: ControlActions) {
  const cluster = new ClusterChoice(disposer, actions.show);

  const zoomIn = button("+", "Zoom in (+)", () => actions.zoom(0.5));
  const zoomOut = button("−", "Zoom out (−)", () => actions.zoom(2));
  const whole = button("whole", "Show the whole (0)", actions.whole);

  const field = h("input", {
    type: "search",
    class: "sg-field swr-search",
    placeholder: "Search: mbarrier.arrive, kernel.cu:47, full[1]",
    "aria-label": "Search instructions, source lines and barriers (/)",
  });
  const answer = h("output", { class: "swr-answer", "aria-live": "polite" });
  disposer.listen(field, "keydown", (event) => {
    if (event.key === "Enter") answer.textContent = actions.search(field.value, event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") {
      field.value = "";
      answer.textContent = "";
      field.closest<HTMLElement>(".sg-widget")?.focus({ preventScroll: true });
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  const zoom = h("span", { class: "swr-zoom", role: "group", "aria-label": "Zoom" }, zoomOut, zoomIn, whole);

  return {
    parts: [cluster.element, axis.element, zoom],
    more: [field, answer],
    focusSearch: () => field.focus(),
    load: (meta: LaunchMeta, live: boolean) => cluster.load(meta, live),
  };
}

function button(text: string, label: string, run: () => void): HTMLButtonElement {
  const element = h(
    "button",
    { type: "button", class: "sg-button", "aria-label": label, title: label },
    text,
  );
  element.addEventListener("click", run);
  return element;
}
