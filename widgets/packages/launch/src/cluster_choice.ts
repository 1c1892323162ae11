// Which cluster of the grid is shown.

import { type Disposer, h } from "@sglab/core";
import type { LaunchMeta } from "./data";

const LISTED = 512; // more are reached by selecting a CTA, or from Python: widget.show(1000)

function clusterNoun({ length }: LaunchMeta["ctas"]): string {
  return length === 2 ? "CTA pair" : length === 1 ? "CTA" : "cluster";
}

/** What to do where a cluster has nothing to show: "Choose another CTA, or record". */
export function choiceOrRecord({ clusters, ctas }: LaunchMeta): string {
  return clusters > 1 ? `Choose another ${clusterNoun(ctas)}, or record` : "Record";
}

export class ClusterChoice {
  readonly element = h("select", {
    class: "sg-select",
    "aria-label": "Cluster",
    title: "Cluster of the grid",
    hidden: true,
  });

  constructor(disposer: Disposer, show: (cluster: number) => void) {
    disposer.listen(this.element, "change", () => show(Number(this.element.value)));
  }

  load({ clusters, cluster, ctas }: LaunchMeta, live: boolean): void {
    const count = Math.min(clusters, LISTED);
    const what = clusterNoun(ctas);
    this.element.hidden = !live || clusters < 2;
    if (this.element.options.length !== count)
      this.element.replaceChildren(
        ...Array.from({ length: count }, (_, i) => h("option", { value: i }, `${what} ${i} of ${clusters}`)),
      );
    this.element.value = String(cluster);
  }
}
