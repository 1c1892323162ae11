// The picture: ranks over time, below it the collectives in numbers and the shards of the weights.

import { type Disposer, type Frame, h, Tabs, type Theme } from "@sglab/core";
import { layerOf, type Recorded } from "./data";
import { jointDetails } from "./details";
import { ShardsView } from "./shards_view";
import { TableView } from "./table_view";
import { type Axis, TimelineView } from "./timeline_view";

const BESIDE = 76; // px of the view beside the timeline and the table
const LEAST = 140;
const MOST = 460;

export interface Shown {
  recorded: Recorded;
  position: number;
  axis: Axis;
  /** Whose weights are listed. */
  layer: string;
}

export interface View {
  draw(shown: Shown): void;
  nextTab(): void;
}

export function makeView(
  frame: Frame,
  disposer: Disposer,
  theme: () => Theme,
  press: (joint: number) => void,
): View {
  let last: Shown | undefined;
  const timeline = new TimelineView(frame.tooltip, press);
  const list = new TableView(press);
  const shards = new ShardsView();
  const tabs = new Tabs(
    [
      { id: "collectives", label: "Collectives", panel: list.element },
      { id: "shards", label: "Shards", panel: shards.element },
    ],
    "Collectives and weights",
    disposer,
    () => last && draw(last),
  );
  const title = h("div", { class: "srk-heading" });
  frame.view.append(title, timeline.element, tabs.element);

  function draw(shown: Shown): void {
    last = shown;
    const { recorded, position, axis, layer } = shown;
    const pass = recorded.passes[recorded.step];
    const tokens = pass?.tokens.join(" + ") ?? "";
    const apart = recorded.run.dpSize > 1 && pass?.padding ? `, ${pass.padding}` : "";
    title.textContent = `Pass ${pass?.number}, ${pass?.modes.join(" and ").toLowerCase().replaceAll("_", " ")} of ${tokens} ${tokens === "1" ? "token" : "tokens"}${apart}: ranks over ${axis === "time" ? "measured time" : "the order of collectives"}`;
    timeline.draw({ recorded, position, axis, width: frame.view.clientWidth });
    const height = Math.min(MOST, Math.max(LEAST, frame.room() - BESIDE - timeline.height));
    const module = recorded.joints[position - 1]?.module ?? "";
    if (tabs.current === "collectives") list.draw(recorded, position, height);
    else shards.draw(recorded, layer, layerOf(module) === undefined ? "" : module, theme().dark, height);
    frame.details.replaceChildren(...jointDetails(recorded, position - 1));
  }

  return { draw, nextTab: () => tabs.next() };
}
