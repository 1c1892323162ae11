// cp.async as every warp counts it: groups are committed in order, wait_group N lets all but the N latest be done.

import { format, h } from "../core";
import { type Pipeline, smem } from "./data";

const STATES = {
  open: ["○ open", "copies go here until commit_group"],
  committed: ["◐ committed", "in flight: wait_group has not asked for it yet"],
  complete: ["● complete", "a wait_group (or wait_all) has seen it done"],
} as const;

export function pipelineTable(pipelines: readonly Pipeline[]): HTMLElement {
  if (!pipelines.length)
    return h("p", { class: "smv-note" }, "No warp of this CTA has executed cp.async up to this moment.");
  const tables = pipelines.map(({ warp, groups }) => {
    const pending = groups.filter(({ state }) => state === "committed").length;
    const rows = groups.map(({ number, copies, bytes, start, end, state }) =>
      h(
        "tr",
        { "data-state": state },
        h("td", {}, String(number)),
        h("td", { title: STATES[state][1] }, STATES[state][0]),
        h("td", {}, format.count(copies)),
        h("td", {}, format.count(bytes)),
        h("td", { class: "smv-code" }, copies ? `${smem(start)} – ${smem(end)}` : "empty"),
      ),
    );
    const head = ["group", "state", "instructions", "bytes", "stage"].map((name) =>
      h("th", { scope: "col" }, name),
    );
    return h(
      "table",
      { class: "ssm-pipeline" },
      h("caption", {}, `Warp ${warp}: ${format.plural(pending, "committed group")} in flight`),
      h("thead", {}, h("tr", {}, ...head)),
      h("tbody", {}, ...rows),
    );
  });
  return h("div", { class: "ssm-pipelines" }, ...tables);
}
