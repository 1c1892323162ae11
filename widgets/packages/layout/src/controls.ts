// Layout's toolbar: a layout to type, one to choose, the type of the elements; behind *more*, how a warp reads it.

import { type Disposer, h } from "@sglab/core";
import { menu } from "@sglab/memory/parts";
import type { LayoutSource, Shown } from "./protocol";
import { LABELS, type Label, labelIn } from "./words";

export interface Controls {
  parts: HTMLElement[];
  more: HTMLElement[];
  show(shown: Shown, label: Label): void;
  focusText(): void;
}

type Change = { layout?: string; element?: string; order?: string; lane_bytes?: number };

export function makeControls(
  source: LayoutSource,
  disposer: Disposer,
  ask: (change: Change) => void,
  setLabel: (label: Label) => void,
): Controls {
  const { orders, laneBytesOffered } = source.get("shown");
  const field = h("input", {
    class: "sg-field sly-text",
    type: "text",
    placeholder: "(8,(4,2)):(4,(1,32))",
    "aria-label": "Layout in CuTe's notation, or the name of a fragment",
    title: "Enter shows it: shape:stride, Sw<b,m,s> o layout, A o B, complement(A, n), or mma.m16n8k16.f16.A",
    spellcheck: "false",
  });
  disposer.listen(field, "keydown", (event) => {
    if (event.key === "Enter") ask({ layout: field.value });
  });
  const offered = menu("or", [["", "choose …"], ...source.get("offered")], (layout) => {
    if (layout) ask({ layout });
  });
  offered.root.querySelector("select")?.classList.add("sly-offered");
  const elements = menu(
    "of",
    source.get("elements").map((name) => [name, name] as const),
    (element) => ask({ element }),
  );
  const order = menu("a warp reads", orders, (name) => ask({ order: name }));
  const lane = menu(
    "a lane takes",
    laneBytesOffered.map((bytes) => [String(bytes), `${bytes} bytes`] as const),
    (bytes) => ask({ lane_bytes: Number(bytes) }),
  );
  const labels = menu("cells say", LABELS, setLabel);
  return {
    parts: source.live ? [field, offered.root, elements.root] : [labels.root],
    more: source.live ? [order.root, lane.root, labels.root] : [],
    show(shown, label) {
      if (document.activeElement !== field) field.value = shown.asked;
      offered.show(source.get("offered").some(([text]) => text === shown.asked) ? shown.asked : "");
      elements.show(shown.element);
      order.show(shown.order);
      lane.show(String(shown.laneBytes));
      labels.show(labelIn(shown.space, label));
      for (const each of [elements.root, order.root, lane.root]) each.hidden = shown.space !== "smem";
    },
    focusText: () => field.focus(),
  };
}
