// TensorMemory's toolbar: what to show, how to read words, zoom, a cell to go to, which CTAs.

import { type Disposer, h } from "@sglab/core";
import { button, menu, switcher } from "@sglab/memory/parts";
import { FORMAT_LABELS, FORMATS } from "@sglab/memory/words";
import { MODE_LABELS, MODES, type Mode } from "./looks";
import type { Launch, TensorMemorySource } from "./protocol";
import type { Reading } from "./reading";

export const ZOOM_STEP = 0.25;

export interface Actions {
  setMode: (mode: Mode) => void;
  setReading: (reading: Reading) => void;
  zoom: (by: number) => void;
  whole: () => void;
  goTo: (text: string) => void;
  failed: (error: unknown) => void;
}

export interface Controls {
  parts: HTMLElement[];
  more: HTMLElement[];
  show(mode: Mode, reading: Reading): void;
  showLaunch(launch: Launch): void;
  /** Hidden where there is nothing to show. */
  showWhether(shown: boolean): void;
  focusAddress(): void;
}

export function makeControls(source: TensorMemorySource, disposer: Disposer, actions: Actions): Controls {
  const modes = switcher(
    "Show",
    MODES.map((each) => [each, MODE_LABELS[each]] as const),
    actions.setMode,
  );
  const formats = menu<Reading>(
    "values as",
    [["own", "their own type"], ...FORMATS.map((each) => [each, FORMAT_LABELS[each]] as const)],
    actions.setReading,
  );
  const address = h("input", {
    class: "sg-field stm-go",
    type: "text",
    placeholder: "tmem[lane,col]",
    "aria-label": "Go to a cell: lane and column, or a raw address",
    spellcheck: "false",
  });
  disposer.listen(address, "keydown", (event) => {
    if (event.key === "Enter") actions.goTo(address.value);
  });
  const clusters = h("select", { class: "sg-select", "aria-label": "CTAs" });
  disposer.listen(clusters, "change", () => {
    source.call("show_cluster", { cta: Number(clusters.value) }).catch(actions.failed);
  });
  const clusterBox = h("label", { class: "smv-label", hidden: true }, "CTAs ", clusters);
  const looks = [
    button("−", "Zoom out (-)", () => actions.zoom(-ZOOM_STEP)),
    button("+", "Zoom in (+)", () => actions.zoom(ZOOM_STEP)),
    button("whole", "Show everything (0)", actions.whole),
    address,
  ];
  return {
    parts: [modes.root, formats.root, clusterBox],
    more: looks,
    show(mode, reading) {
      modes.show(mode);
      formats.show(reading);
    },
    showLaunch(launch) {
      modes.root
        .querySelector<HTMLButtonElement>("[data-value=values]")
        ?.toggleAttribute("disabled", !launch.values);
      formats.root.hidden = !launch.values;
      clusterBox.hidden = launch.clusters.length < 2 || !source.live;
      clusters.replaceChildren(
        ...launch.clusters.map((ctas) => h("option", { value: ctas[0] as number }, ctas.join(" and "))),
      );
      clusters.value = String(launch.ctas[0]);
    },
    showWhether(shown) {
      for (const each of [modes.root, ...looks]) each.hidden = !shown;
      if (!shown) formats.root.hidden = true; // which showLaunch decides
    },
    focusAddress: () => address.focus(),
  };
}
