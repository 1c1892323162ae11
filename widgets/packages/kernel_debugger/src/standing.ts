// Which warps are where in the listings, and the marks that show it.

import { h } from "@sglab/core";
import type { LineLook } from "./code_pane";
import type { State, Warp } from "./protocol";
import { warpLabel, warpMark, warpName } from "./warp_looks";

const SHOWN_MARKS = 2;
/** Pixels of a mark: at least, around its label, of one of the label's characters, and between two. */
const MARK = { least: 17, around: 8, character: 6.4, gap: 2 };

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
  /** Lines of calls that the focused warp is inside of. */
  #calls = new Set<number>();
  /** The line of the instruction that was executed last. */
  #ran: number | undefined;

  /**
   * @param placeOf the line of an instruction in this listing, if it has one; whether it is the innermost; and the lines of
   * the calls around it
   */
  show(
    state: State | undefined,
    placeOf: (pc: number) => { line: number; inner: boolean; calls: number[] } | undefined,
  ): void {
    this.#on.clear();
    this.#calls.clear();
    this.#ran = state?.last ? placeOf(state.last[2])?.line : undefined;
    this.#clusterSize = new Set(state?.warps.map(({ cta }) => cta)).size;
    for (const warp of state?.warps ?? []) {
      warp.groups.forEach(([pc], group) => {
        const place = placeOf(pc);
        if (!place) return;
        const [cta, number, focusedGroup] = state?.focus ?? [];
        const focused = cta === warp.cta && number === warp.warp && focusedGroup === group;
        if (focused) for (const line of place.calls) this.#calls.add(line);
        const standing = { warp, inner: place.inner, focused };
        const list = this.#on.get(place.line);
        if (list) list.push(standing);
        else this.#on.set(place.line, [standing]);
      });
    }
  }

  look(line: number): Pick<LineLook, "current" | "ran" | "spoken"> {
    const standing = this.#on.get(line) ?? [];
    const focused = standing.find((each) => each.focused);
    const ran = line === this.#ran;
    const spoken = [
      standing.length ? `here: ${standing.map(({ warp }) => warpName(warp)).join(", ")}` : "",
      ran ? "executed last" : "",
    ];
    return {
      current: focused?.inner ? "now" : focused || this.#calls.has(line) ? "call" : "",
      ran,
      spoken: spoken.filter(Boolean).join("; "),
    };
  }

  /** What distinguishes the marks of a line from others. */
  key(line: number): string {
    const standing = this.#on.get(line) ?? [];
    const names = standing.map(
      ({ warp, inner, focused }) =>
        `${warp.cta}.${warp.warp}${warp.role}${inner ? "" : "c"}${focused ? "f" : ""}`,
    );
    return names.length ? `${this.#clusterSize}:${names}` : "";
  }

  /** Pixels that the widest marks of a line take. */
  get width(): number {
    let most = 0;
    for (const line of this.#on.keys()) {
      const { shown, more } = this.#chosen(line);
      const labels = [
        ...shown.map(({ warp }) => warpLabel(warp, this.#clusterSize)),
        ...(more ? [`+${more}`] : []),
      ];
      const widths = labels.map(
        (label) => MARK.gap + Math.max(MARK.least, MARK.around + MARK.character * label.length),
      );
      most = Math.max(
        most,
        widths.reduce((sum, width) => sum + width, MARK.gap),
      );
    }
    return Math.ceil(most);
  }

  /** The focused warp first, and how many more than those are shown there are. */
  #chosen(line: number): { sorted: Standing[]; shown: Standing[]; more: number } {
    const sorted = [...(this.#on.get(line) ?? [])].sort((a, b) => Number(b.focused) - Number(a.focused));
    const room = this.#clusterSize > 1 ? SHOWN_MARKS - 1 : SHOWN_MARKS; // their labels are longer
    const shown = sorted.slice(0, sorted.length > room ? 1 : room);
    return { sorted, shown, more: sorted.length - shown.length };
  }

  /** The marks of a line's warps; of many, how many more. */
  marks(line: number): HTMLElement[] {
    const size = this.#clusterSize;
    const { sorted, shown, more } = this.#chosen(line);
    const marks = shown.map(({ warp, inner, focused }) => {
      const mark = warpMark(warp, size);
      mark.dataset.inner = String(inner);
      mark.dataset.focused = String(focused);
      mark.title = `${warpName(warp)}${inner ? "" : ", in a call made here"}`;
      return mark;
    });
    if (more) {
      const rest = sorted.slice(shown.length).map(({ warp }) => warpLabel(warp, size));
      marks.push(h("span", { class: "kd-more", title: `also here: ${rest.join(", ")}` }, `+${rest.length}`));
    }
    return marks;
  }
}
