// Every warp of the cluster in focus: its mark, its role, and what it does; a press focuses it.

import { h } from "../core";
import type { CodeModel } from "./code_model";
import type { State, Warp } from "./protocol";
import { roleName, warpMark, warpName } from "./warp_looks";
import { duringWait } from "./words";

export interface WarpEvents {
  focus: (cta: number, warp: number, group: number) => void;
  other: (cta: number) => void;
}

export class WarpsView {
  readonly element = h("section", { class: "kd-warps", "aria-label": "Warps" });
  #choose = h("select", { class: "sg-select", "aria-label": "CTA" });
  #listed = "";
  #focus = "";

  constructor(
    private code: CodeModel,
    private events: WarpEvents,
  ) {
    this.#choose.addEventListener("change", () => events.other(Number(this.#choose.value)));
  }

  show(state: State, pinned: boolean): void {
    const active = document.activeElement as HTMLElement | null;
    const focused = active && this.element.contains(active) ? active.dataset.key : undefined;
    const ctas = state.ctas.filter(([linear]) => state.warps.some(({ cta }) => cta === linear));
    const parts: HTMLElement[] = [this.#heading(state, pinned)];
    for (const [linear, x, y, z, cluster, rank] of ctas) {
      const warps = state.warps.filter(({ cta }) => cta === linear);
      const named = ctas.length > 1 ? `, cluster ${cluster} rank ${rank}` : "";
      parts.push(
        h("div", { class: "kd-cta" }, `CTA ${linear} (${x}, ${y}, ${z})${named}`),
        h(
          "ul",
          { class: "kd-warp-list", "aria-label": `Warps of CTA ${linear}` },
          ...warps.map((warp) => h("li", {}, ...this.#rows(state, warp, ctas.length))),
        ),
      );
    }
    if (ctas.length === 0)
      parts.push(h("p", { class: "kd-note" }, "No CTA is running. Step back to look at one."));
    const scrolled = this.element.scrollTop;
    this.element.replaceChildren(...parts);
    this.element.scrollTop = scrolled;
    if (focused)
      this.element.querySelector<HTMLElement>(`[data-key="${focused}"]`)?.focus({ preventScroll: true });
    const focus = String(state.focus);
    if (focus !== this.#focus) this.#revealFocus();
    this.#focus = focus;
  }

  /** Scrolls the list, and only the list, to the warp in focus. */
  #revealFocus(): void {
    const row = this.element.querySelector<HTMLElement>("[aria-pressed=true]");
    if (!row) return;
    const [box, place] = [this.element.getBoundingClientRect(), row.getBoundingClientRect()];
    if (place.top < box.top) this.element.scrollTop -= box.top - place.top + place.height;
    else if (place.bottom > box.bottom) this.element.scrollTop += place.bottom - box.bottom + place.height;
  }

  #heading(state: State, pinned: boolean): HTMLElement {
    const listed = state.ctas.map(([linear]) => linear).join();
    if (listed !== this.#listed) {
      this.#listed = listed;
      this.#choose.replaceChildren(
        ...state.ctas.map(([linear]) => h("option", { value: linear }, `CTA ${linear}`)),
      );
    }
    if (state.focus) this.#choose.value = String(state.focus[0]);
    return h(
      "div",
      { class: "kd-bar" },
      h("span", { class: "sg-heading" }, "Warps"),
      state.ctas.length > 1 ? this.#choose : undefined,
      h("span", { class: "kd-hint" }, pinned ? "focus stays · Esc follows" : "focus follows"),
    );
  }

  #rows(state: State, warp: Warp, ctas: number): HTMLElement[] {
    if (warp.groups.length === 0) return [this.#row(state, warp, ctas, 0)];
    return warp.groups.map((_, group) => this.#row(state, warp, ctas, group));
  }

  #row(state: State, warp: Warp, ctas: number, number: number): HTMLElement {
    const group = warp.groups[number];
    const [focusCta, focusWarp, focusGroup] = state.focus ?? [];
    const isFocus = focusCta === warp.cta && focusWarp === warp.warp && focusGroup === number;
    const ofWarp = state.last?.[0] === warp.cta && state.last[1] === warp.warp;
    const ran = ofWarp && (warp.groups.length < 2 || ((state.last?.[3] ?? 0) & (group?.[1] ?? 0)) !== 0);
    const lanes = warp.groups.length > 1 && group ? ` lanes 0x${(group[1] >>> 0).toString(16)}` : "";
    const where = group ? this.code.placeName(group[0]) : "";
    const doing = !group ? "exited" : group[5] ? duringWait(state, warp, group) : "ready";
    const button = h(
      "button",
      {
        type: "button",
        class: "kd-warp",
        "data-key": `${warp.cta} ${warp.warp} ${number}`,
        "data-wait": group ? group[2] : "exited",
        "aria-pressed": String(isFocus),
        title: `${warpName(warp)}: ${warp.executed.toLocaleString("en-US")} instructions executed`,
      },
      warpMark(warp, ctas, true),
      h(
        "span",
        { class: "kd-warp-text" },
        h(
          "span",
          { class: "kd-warp-place" },
          `${warp.role ? `${roleName(warp.role)} · ` : ""}${where}${lanes}`,
        ),
        h("span", { class: "kd-warp-doing" }, doing),
      ),
      ran ? h("span", { class: "kd-ran", title: "It ran last" }, "◀") : undefined,
    );
    button.addEventListener("click", () => this.events.focus(warp.cta, warp.warp, number));
    return button;
  }
}
