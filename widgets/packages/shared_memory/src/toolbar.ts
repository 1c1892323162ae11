// SharedMemory's toolbar: which CTA, which tile, what the cells say, an address to go to.

import { type Disposer, h } from "@sglab/core";
import { button, switcher } from "@sglab/memory/parts";
import { smem } from "./data";
import type { Launch, SharedMemorySource, Tile } from "./protocol";

export type Content = "places" | "values";

export interface Actions {
  openTile: (id: number) => void;
  stepTile: (by: number) => void;
  setContent: (content: Content) => void;
  setFollow: (follow: boolean) => void;
  goTo: (text: string) => void;
  failed: (error: unknown) => void;
}

export interface Toolbar {
  parts: HTMLElement[];
  more: HTMLElement[];
  showLaunch(launch: Launch, tiles: readonly Tile[]): void;
  show(tile: number, content: Content): void;
  focusAddress(): void;
}

export function makeToolbar(source: SharedMemorySource, disposer: Disposer, actions: Actions): Toolbar {
  const tiles = h("select", { class: "sg-select ssm-tile", "aria-label": "Tile" });
  disposer.listen(tiles, "change", () => actions.openTile(Number(tiles.value)));
  const ctas = h("select", { class: "sg-select", "aria-label": "CTA" });
  disposer.listen(ctas, "change", () => {
    source.call("show_cta", { cta: Number(ctas.value) }).catch(actions.failed);
  });
  const ctaBox = h("label", { class: "smv-label" }, "CTA ", ctas);
  const tileBox = h(
    "span",
    { class: "ssm-row" },
    h("label", { class: "smv-label" }, "tile ", tiles),
    button("◂", "Previous tile ([)", () => actions.stepTile(-1)),
    button("▸", "Next tile (])", () => actions.stepTile(1)),
  );
  const address = h("input", {
    class: "sg-field ssm-go",
    type: "text",
    placeholder: "smem+0x… or row, col",
    title: "Go to an address in shared memory, or to row and column of the open tile (/)",
    "aria-label": "Go to an address in shared memory, or to row and column of the open tile",
    spellcheck: "false",
  });
  disposer.listen(address, "keydown", (event) => {
    if (event.key === "Enter") actions.goTo(address.value);
  });
  const contents = switcher<Content>(
    "In the cells",
    [
      ["places", "places"],
      ["values", "values"],
    ],
    actions.setContent,
  );
  const follow = h("input", { type: "checkbox", checked: true });
  disposer.listen(follow, "change", () => actions.setFollow(follow.checked));
  const followBox = h(
    "label",
    { class: "smv-label", title: "Each step opens the tile that it copies or reads" },
    follow,
    "follow steps",
  );
  return {
    parts: [ctaBox, tileBox, contents.root],
    more: [followBox, address],
    showLaunch(launch, all) {
      ctaBox.hidden = launch.ctas.length < 2 || !source.live;
      ctas.replaceChildren(...launch.ctas.map((cta) => h("option", { value: cta }, String(cta))));
      ctas.value = String(launch.cta);
      tileBox.hidden = followBox.hidden = !all.length;
      contents.root.hidden = address.hidden = launch.empty !== "";
      const names = all.map((each) => `${smem(each.start)}: ${each.name}`);
      tiles.replaceChildren(
        h("option", { value: -1, hidden: true }, "–"),
        ...all.map(({ id }, i) => h("option", { value: id }, names[i])),
      );
      // a menu as wide as its entries measures all of them whenever another is chosen
      const longest = Math.max(0, ...names.map(({ length }) => length));
      tiles.style.setProperty("--ssm-longest", `${longest}ch`);
    },
    show(tile, content) {
      if (tiles.value !== String(tile)) tiles.value = String(tile);
      contents.show(content);
    },
    focusAddress: () => address.focus(),
  };
}
