// The panels above the tile: decoders that edit it, banks, cp.async groups; or none, and all the room is the tile's.

import { h, type Theme } from "@sglab/core";
import { accessPanel } from "./access_panel";
import { descriptorPanel } from "./descriptor_panel";
import type { Editor, From } from "./editor";
import { type MapEdit, mapPanel } from "./map_panel";
import type { Model } from "./model";
import { pipelinePanel } from "./pipeline_view";
import type { TensorMap } from "./protocol";
import { rawPanel } from "./raw_panel";
import { tabs } from "./tabs";

/** The tile alone. */
const TILE = "tile";
/** Which panel edits what the sides show. */
const EDITS: Record<string, From> = {
  descriptor: "descriptor",
  instruction: "descriptor",
  map: "map",
  array: "raw",
};

export interface BoardOptions {
  editor: Editor;
  edited: (change: Parameters<Editor["edit"]>[0]) => void;
  maps: () => readonly TensorMap[];
  /** Where a box goes in shared memory if nothing else is said. */
  base: () => number;
  /** Another panel is in front, and leaves the tile different room. */
  picked: () => void;
  /** To just after an event of the launch. */
  goToEvent: (event: number) => void;
}

export interface Board {
  readonly root: HTMLElement;
  /** Another launch: the requested panel is shown, or the tile alone. */
  reset(tab: string): void;
  /** The panel of what is open comes to the front, unless banks or groups are being looked at. */
  showOpened(): void;
  /** Draws the panel in front. */
  draw(model: Pick<Model, "banks" | "pipelines" | "info" | "facts">, theme: Theme): void;
}

export function makeBoard({ editor, edited, maps, base, picked: shown, goToEvent }: BoardOptions): Board {
  const descriptors = descriptorPanel((descriptor) => edited({ descriptor }));
  const mapView = mapPanel(
    (map) => edited({ map }),
    (number) => {
      const map = maps()[number];
      if (map) edited({ map: { map, coordinates: map.dims.map(() => 0), base: editor.map?.base ?? base() } });
    },
  );
  const mapBox = h("div");
  const noMaps = h("p", { class: "smv-note" }, "No copy of this launch used a tensor map.");
  const raw = rawPanel((next) => edited({ raw: next }));
  const access = accessPanel(goToEvent);
  const groups = pipelinePanel(goToEvent);
  const board = tabs(
    [
      [TILE, "tile", h("div")],
      ["descriptor", "smem descriptor", descriptors.smem],
      ["instruction", "instruction descriptor", descriptors.instruction],
      ["map", "tensor map", mapBox],
      ["array", "plain array", raw.root],
      ["banks", "banks", access.root],
      ["groups", "cp.async groups", groups.root],
    ],
    (picked) => {
      const from = EDITS[picked];
      if (from !== undefined && from !== editor.from) editor.show(from);
      shown();
    },
  );

  // What has not changed is left alone: a menu that is open stays open.
  const drawDescriptor = onChange(descriptors.show);
  const drawRaw = onChange(raw.show);
  const drawMap = onChange((edit: MapEdit | undefined) => {
    mapBox.replaceChildren(edit ? mapView.root : noMaps);
    if (edit) mapView.show(edit, maps());
  });
  const drawGroups = onChange(groups.show);
  const drawAccess = onChange(access.show);

  return {
    root: board.root,
    reset: (tab) => board.show(tab || TILE),
    showOpened() {
      const now = EDITS[board.current];
      if (now !== undefined && now !== editor.from) board.show(tabOf(editor.from));
    },
    draw({ banks, pipelines, info, facts }, theme) {
      switch (board.current) {
        case "descriptor":
        case "instruction":
          return drawDescriptor(editor.descriptor);
        case "map":
          return drawMap(editor.map);
        case "array":
          return drawRaw(editor.raw);
        case "banks":
          return facts && drawAccess(banks, info, facts.code, editor.layout, theme);
        case "groups":
          return drawGroups(pipelines, info?.position ?? 0);
      }
    },
  };
}

function tabOf(from: From): string {
  return from === "raw" ? "array" : from;
}

/** `draw`, skipped while its arguments are the same objects. */
function onChange<T extends unknown[]>(draw: (...values: T) => void): (...values: T) => void {
  let last: T | undefined;
  return (...values) => {
    if (last && values.every((value, i) => value === last?.[i])) return;
    last = values;
    draw(...values);
  };
}
