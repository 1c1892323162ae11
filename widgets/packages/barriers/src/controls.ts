// The toolbar: which cluster, which CTA's barriers, and whether unused ones are listed.

import { type Disposer, h } from "@sglab/core";
import type { AxisChoice } from "@sglab/launch/axis_choice";
import { ClusterChoice } from "@sglab/launch/cluster_choice";
import type { Barrier, LaunchMeta } from "@sglab/launch/data";

export interface ControlActions {
  show: (cluster: number) => void;
  filter: () => void;
}

export function makeControls(disposer: Disposer, axis: AxisChoice, actions: ControlActions) {
  const cluster = new ClusterChoice(disposer, actions.show);
  const cta = h("select", {
    class: "sg-select",
    "aria-label": "Barriers of",
    title: "Barriers of",
    hidden: true,
  });
  const unused = h("input", { type: "checkbox" });
  const unusedLabel = h("label", { class: "sbr-unused" }, unused, "unused ones, too");
  disposer.listen(cta, "change", actions.filter);
  disposer.listen(unused, "change", actions.filter);
  let ctas: number[] = [];

  return {
    parts: [cluster.element, axis.element, cta],
    more: [unusedLabel],
    load(meta: LaunchMeta, live: boolean) {
      cluster.load(meta, live);
      if (meta.ctas.join() === ctas.join()) return;
      ctas = meta.ctas;
      cta.hidden = ctas.length < 2;
      cta.replaceChildren(
        ...ctas.map((each, rank) => h("option", { value: rank }, `CTA ${each}`)),
        h("option", { value: "all" }, "all CTAs"),
      );
      cta.value = "0";
    },
    /** Shows another CTA's barriers where the shown ones do not include `rank`'s. */
    reveal(rank: number | undefined) {
      if (rank !== undefined && cta.value !== "all") cta.value = String(rank);
    },
    shows(barrier: Barrier | undefined, used: boolean): boolean {
      if (!barrier || (!used && !unused.checked)) return false;
      return barrier.kind === "cluster" || cta.value === "all" || Number(cta.value) === barrier.rank;
    },
  };
}
