// Who stands where in the listings: the warps on each line, and the marks that tell.

import { h } from "../core";
import type { LineLook } from "./code_pane";
import type { State, Warp } from "./protocol";
import { warpLabel, warpMark, warpName } from "./warp_looks";

const SHOWN_MARKS = 3;

interface Standing {
  warp: Warp;
  /** Whether the line is the instruction's own, or that of a call it is inside of. */
  inner: boolean;
  focused: boolean;
}

/** The warps of one moment on the lines of one listing. */
export class Standings {
  #on = new Map<number, Standing[]>();
  #clusterSize = 1;

  /** @param placeOf the line of an instruction in this listing, if it has one, and whether it is the innermost */
  show(
    state: State | undefined,
    placeOf: (pc: number) => { line: number; inner: boolean } | undefined,
  ): void {
    this.#on.clear();
    this.#clusterSize = new Set(state?.warps.map(({ cta }) => cta)).size;
    for (const warp of state?.warps ?? []) {
      warp.groups.forEach(([pc], group) => {
        const place = placeOf(pc);
        if (!place) return;
        const [cta, number, focusedGroup] = state?.focus ?? [];
        const focused = cta === warp.cta && number === warp.warp && focusedGroup === group;
        const standing = { warp, inner: place.inner, focused };
        const list = this.#on.get(place.line);
        if (list) list.push(standing);
        else this.#on.set(place.line, [standing]);
      });
    }
  }

  look(line: number): Pick<LineLook, "current" | "spoken"> {
    const standing = this.#on.get(line) ?? [];
    const focused = standing.find((each) => each.focused);
    return {
      current: focused ? (focused.inner ? "now" : "call") : "",
      spoken: standing.length ? `here: ${standing.map(({ warp }) => warpName(warp)).join(", ")}` : "",
    };
  }

  /** What tells the marks of a line from others. */
  key(line: number): string {
    const standing = this.#on.get(line) ?? [];
    const names = standing.map(
      ({ warp, inner, focused }) =>
        `${warp.cta}.${warp.warp}${warp.role}${inner ? "" : "c"}${focused ? "f" : ""}`,
    );
    return names.length ? `${this.#clusterSize}:${names}` : "";
  }

  /** The focused warp first; of many, how many more. */
  marks(line: number): HTMLElement[] {
    const size = this.#clusterSize;
    const sorted = [...(this.#on.get(line) ?? [])].sort((a, b) => Number(b.focused) - Number(a.focused));
    const room = size > 1 ? SHOWN_MARKS - 1 : SHOWN_MARKS; // their labels are longer
    const shown = sorted.length > room ? sorted.slice(0, room - 1) : sorted;
    const marks = shown.map(({ warp, inner, focused }) => {
      const mark = warpMark(warp, size);
      mark.dataset.inner = String(inner);
      mark.dataset.focused = String(focused);
      mark.title = `${warpName(warp)}${inner ? "" : ", in a call made here"}`;
      return mark;
    });
    if (shown.length < sorted.length) {
      const rest = sorted.slice(shown.length).map(({ warp }) => warpLabel(warp, size));
      marks.push(h("span", { class: "kd-more", title: `also here: ${rest.join(", ")}` }, `+${rest.length}`));
    }
    return marks;
  }
}
