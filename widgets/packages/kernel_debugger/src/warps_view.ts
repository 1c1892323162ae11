// Every warp of the cluster in focus: its mark, its role, and what it does; a press focuses it.

import { type Disposer, format, framed, h, setText } from "@sglab/core";
import type { CodeModel } from "./code_model";
import { type Kept, KeptChildren } from "./kept_children";
import type { Group, State, Warp } from "./protocol";
import { roleName, warpMark, warpName } from "./warp_looks";
import { duringWait, maskText, mbarrierName, sharedAddress } from "./words";

export interface WarpEvents {
  focus: (cta: number, warp: number, group: number) => void;
  other: (cta: number) => void;
}

/** Who chose the warp that is looked at. */
export type ChosenBy = "reader" | "failure";

const CHOICES: Record<ChosenBy, string> = {
  reader: "chosen by you · Esc: the one that runs",
  failure: "the one that failed · Esc: the one that runs",
};

export class WarpsView {
  readonly element = h("section", { class: "kd-warps", "aria-label": "Warps" });
  #choose = h("select", { class: "sg-select", "aria-label": "CTA" });
  #hint = h("span", { class: "kd-hint" });
  #heading = h(
    "div",
    { class: "kd-bar" },
    h("span", { class: "sg-heading" }, "Warps"),
    this.#choose,
    this.#hint,
  );
  #kept = new KeptChildren(this.element);
  #lists = new Map<number, WarpList>();
  /** In the next frame, whose layout is needed anyway. */
  #reveal = framed(() => this.#revealFocus());
  #listed = "";
  #focus = "";
  #position = 0;

  constructor(
    private code: CodeModel,
    private events: WarpEvents,
    disposer: Disposer,
  ) {
    disposer.add(() => this.#reveal.cancel());
    this.#choose.addEventListener("change", () => events.other(Number(this.#choose.value)));
  }

  show(state: State, chosen: ChosenBy | undefined): void {
    const active = document.activeElement as HTMLElement | null;
    const focused = active && this.element.contains(active) ? active.dataset.key : undefined;
    const ctas = state.ctas.filter(([linear]) => state.warps.some(({ cta }) => cta === linear));
    this.#showHeading(state, chosen);
    this.#kept.show([
      { key: "heading", stamp: "", make: () => this.#heading },
      ...ctas.flatMap((cta) => this.#cta(state, cta, ctas.length)),
      ...(ctas.length ? [] : [{ key: "none", stamp: "", make: noCta }]),
    ]);
    if (focused && document.activeElement !== active)
      this.element.querySelector<HTMLElement>(`[data-key="${focused}"]`)?.focus({ preventScroll: true });
    const focus = String(state.focus);
    const jumped = Math.abs(state.position - this.#position) > 1; // rows may have other heights now
    if (focus !== this.#focus || jumped) this.#reveal.schedule();
    this.#focus = focus;
    this.#position = state.position;
  }

  #cta(state: State, [linear, x, y, z, cluster, rank]: State["ctas"][number], ctas: number): Kept[] {
    const named = ctas > 1 ? `, cluster ${cluster} rank ${rank}` : "";
    const title = `CTA ${linear} (${x}, ${y}, ${z})${named}`;
    const list = this.#lists.get(linear) ?? new WarpList(linear);
    this.#lists.set(linear, list);
    const warps = state.warps.filter(({ cta }) => cta === linear);
    list.kept.show(
      warps.map((warp) => {
        const rows = this.#rows(state, warp);
        return {
          key: String(warp.warp),
          stamp: JSON.stringify([rows, ctas]),
          make: () => h("li", {}, ...rows.map((row, group) => this.#row(warp, row, group, ctas))),
        };
      }),
    );
    return [
      { key: `title ${linear}`, stamp: title, make: () => h("div", { class: "kd-cta" }, title) },
      { key: `list ${linear}`, stamp: "", make: () => list.element },
    ];
  }

  /** Scrolls the list, and only the list, to the warp in focus. */
  #revealFocus(): void {
    const row = this.element.querySelector<HTMLElement>("[aria-pressed=true]");
    if (!row) return;
    const scroller = this.element.closest(".sg-details") ?? this.element;
    const [box, place] = [scroller.getBoundingClientRect(), row.getBoundingClientRect()];
    if (place.top < box.top) scroller.scrollTop -= box.top - place.top + place.height;
    else if (place.bottom > box.bottom) scroller.scrollTop += place.bottom - box.bottom + place.height;
  }

  #showHeading(state: State, chosen: ChosenBy | undefined): void {
    const listed = state.ctas.map(([linear]) => linear).join();
    if (listed !== this.#listed) {
      this.#listed = listed;
      this.#choose.replaceChildren(
        ...state.ctas.map(([linear]) => h("option", { value: linear }, `CTA ${linear}`)),
      );
    }
    if (state.focus) this.#choose.value = String(state.focus[0]);
    this.#choose.hidden = state.ctas.length < 2;
    this.#hint.hidden = state.ctas.length === 0; // after the launch there is none to look at
    const own = state.last ? "the one that ran last is shown" : "nothing has run: the first is shown";
    setText(this.#hint, chosen ? CHOICES[chosen] : own);
  }

  /** One row per group of lanes; one for a warp that has exited. */
  #rows(state: State, warp: Warp): RowTexts[] {
    if (warp.groups.length === 0) return [this.#texts(state, warp, 0)];
    return warp.groups.map((_, group) => this.#texts(state, warp, group));
  }

  #texts(state: State, warp: Warp, number: number): RowTexts {
    const group = warp.groups[number];
    const [focusCta, focusWarp, focusGroup] = state.focus ?? [];
    const ofWarp = state.last?.[0] === warp.cta && state.last[1] === warp.warp;
    const lanes = warp.groups.length > 1 && group ? `${maskText(group[1])}: ` : "";
    const where = group ? this.code.shortPlaceName(group[0]) : "";
    return {
      place: `${warp.role ? `${roleName(warp.role)} · ` : ""}${where}`,
      doing: !group ? "exited" : lanes + (group[5] ? duringWait(state, warp, group) : "ready"),
      wait: group ? group[2] : "exited",
      focused: focusCta === warp.cta && focusWarp === warp.warp && focusGroup === number,
      ran: ofWarp && (warp.groups.length < 2 || ((state.last?.[3] ?? 0) & (group?.[1] ?? 0)) !== 0),
      title: titleOf(state, warp, group, this.code),
    };
  }

  #row(warp: Warp, texts: RowTexts, number: number, ctas: number): HTMLElement {
    const { place, doing, wait, focused, ran, title } = texts;
    const button = h(
      "button",
      {
        type: "button",
        class: "kd-warp",
        "data-key": `${warp.cta} ${warp.warp} ${number}`,
        "data-wait": wait,
        "aria-pressed": String(focused),
        tabindex: focused ? 0 : -1, // ↓ and ↑ go to the others
        title,
      },
      warpMark(warp, ctas, true),
      h(
        "span",
        { class: "kd-warp-text" },
        h("span", { class: "kd-warp-place" }, place),
        h("span", { class: "kd-warp-doing" }, doing),
      ),
      ran ? h("span", { class: "kd-ran", title: "It ran last" }, "◀") : undefined,
    );
    button.addEventListener("click", () => this.events.focus(warp.cta, warp.warp, number));
    return button;
  }
}

function titleOf(state: State, warp: Warp, group: Group | undefined, code: CodeModel): string {
  const executed = `${format.plural(warp.executed, "instruction")} executed`;
  if (!group) return `${warpName(warp)}: ${executed}`;
  const [pc, , wait, key] = group;
  const address =
    wait === "mbarrier" && mbarrierName(state, key) ? `, mbarrier ${sharedAddress(key, warp.rank)}` : "";
  return `${warpName(warp)} at ${code.placeName(pc)}${address}: ${executed}`;
}

/** What a row says. */
interface RowTexts {
  place: string;
  doing: string;
  wait: string;
  focused: boolean;
  ran: boolean;
  title: string;
}

/** The warps of one CTA. */
class WarpList {
  readonly element: HTMLElement;
  readonly kept: KeptChildren;

  constructor(cta: number) {
    this.element = h("ul", { class: "kd-warp-list", "aria-label": `Warps of CTA ${cta}` });
    this.kept = new KeptChildren(this.element);
  }
}

function noCta(): HTMLElement {
  return h("p", { class: "kd-note" }, "No CTA is running. Step back to look at one.");
}
