// Which cluster of the grid is shown; and a way to the CTA that was selected elsewhere.

import { type Disposer, h, type Selection } from "../core";
import type { LaunchMeta } from "./data";

const LISTED = 512; // more are reached by selecting a CTA, or from Python: widget.show(1000)

export interface ClusterActions {
  show: (cluster: number) => void;
  showCta: (cta: number) => void;
}

export class ClusterChoice {
  readonly element = h("select", {
    class: "sg-select",
    "aria-label": "Cluster",
    title: "Cluster of the grid",
    hidden: true,
  });
  readonly other = h("button", { type: "button", class: "sg-button", hidden: true });
  #cta = 0;

  constructor(disposer: Disposer, actions: ClusterActions) {
    disposer.listen(this.element, "change", () => actions.show(Number(this.element.value)));
    disposer.listen(this.other, "click", () => actions.showCta(this.#cta));
  }

  load({ clusters, cluster, ctas }: LaunchMeta, live: boolean): void {
    const count = Math.min(clusters, LISTED);
    const what = ctas.length === 2 ? "CTA pair" : ctas.length === 1 ? "CTA" : "cluster";
    this.element.hidden = !live || clusters < 2;
    if (this.element.options.length !== count)
      this.element.replaceChildren(
        ...Array.from({ length: count }, (_, i) => h("option", { value: i }, `${what} ${i} of ${clusters}`)),
      );
    this.element.value = String(cluster);
  }

  /** Offers the selected CTA where another cluster holds it. */
  offer({ ctas, gridCtas }: LaunchMeta, { cta }: Selection, live: boolean): void {
    this.other.hidden = !live || cta === undefined || cta >= gridCtas || ctas.includes(cta);
    this.#cta = cta ?? 0;
    this.other.textContent = `show CTA ${cta}`;
  }
}
