// The pass's collectives as a table.

import { format, h } from "@sglab/core";
import { endOf, metAt, type Recorded, spanOf } from "./data";
import { micros, NAMES, shortName } from "./words";

const HEADS = ["", "collective", "of", "shape on each rank", "leaves a rank", "waited", "took"] as const;

const HEAD = 22; // px: of the table, which stays above its rows

const LISTED = 3; // shapes of so many ranks are all written

export class TableView {
  readonly element = h("div", { class: "srk-table-box" });
  #of: Recorded | undefined;
  #rows: HTMLTableRowElement[] = [];
  #now: HTMLElement | undefined;

  constructor(press: (joint: number) => void) {
    this.element.addEventListener("click", (event) => {
      const row = (event.target as Element).closest<HTMLElement>("[data-joint]");
      if (row) press(Number(row.dataset.joint));
    });
  }

  draw(recorded: Recorded, position: number, height: number): void {
    this.element.style.setProperty("--srk-height", `${height}px`);
    if (this.#of !== recorded) {
      this.#fill(recorded);
      this.#now = undefined;
    }
    this.#of = recorded;
    this.#rows.forEach((row, at) => {
      row.dataset.now = String(at === position - 1);
      row.dataset.state = at < position ? "done" : "future";
    });
    const now = this.#rows[position - 1];
    const box = this.element;
    const before = this.#now;
    this.#now = now ?? this.#rows[0];
    if (now && before && before !== now && getComputedStyle(box).overflowY === "visible") follow(before, now);
    else if (
      now &&
      (now.offsetTop < box.scrollTop + 22 || now.offsetTop + 22 > box.scrollTop + box.clientHeight)
    )
      box.scrollTop = now.offsetTop - box.clientHeight / 2;
  }

  #fill(recorded: Recorded): void {
    this.#rows = recorded.joints.map((joint, at) => {
      const begins = joint.ranks.map((rank) => spanOf(recorded, at, rank)?.begin ?? 0);
      const met = metAt(recorded, at);
      const cells = [
        String(at + 1),
        NAMES[joint.kind] + (joint.what ? `, ${joint.what}` : ""),
        shortName(joint.module),
        shapes(joint.shapes),
        format.bytes(joint.moved),
        micros(met - Math.min(...begins)),
        micros(endOf(recorded, at) - met),
      ];
      return h("tr", { "data-joint": at }, ...cells.map((cell) => h("td", {}, cell)));
    });
    this.element.replaceChildren(
      h(
        "table",
        { class: "srk-table" },
        h(
          "thead",
          {},
          h("tr", {}, ...HEADS.map((head) => (head ? h("th", { scope: "col" }, head) : h("td")))),
        ),
        h("tbody", {}, ...this.#rows),
      ),
    );
  }
}

/** Where panes stand one below the other and scroll together: on from a row that is in sight. Who reads what is below, stays. */
function follow(before: HTMLElement, now: HTMLElement): void {
  let box = before.parentElement;
  const scrolls = (each: HTMLElement) =>
    each.scrollHeight > each.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(each).overflowY);
  while (box && !scrolls(box)) box = box.parentElement;
  if (!box) return;
  const { top, bottom } = box.getBoundingClientRect();
  const [from, to] = [before.getBoundingClientRect(), now.getBoundingClientRect()];
  if (from.bottom <= top || from.top >= bottom) return;
  if (to.bottom > bottom) box.scrollTop += to.bottom - bottom;
  else if (to.top < top + HEAD) box.scrollTop -= top + HEAD - to.top;
}

/** "9 × 192", or each where ranks differ: "9 × 192, 4 × 192"; of many ranks the least and the most rows: "83–107 × 256". */
export function shapes(all: Record<string, number[]>): string {
  const each = Object.values(all).map((shape) => shape.join(" × "));
  if (new Set(each).size === 1) return each[0] as string;
  const rests = new Set(Object.values(all).map((shape) => shape.slice(1).join(" × ")));
  if (each.length <= LISTED || rests.size > 1) return each.join(", ");
  const rows = Object.values(all).map(([first]) => first ?? 0);
  return [`${Math.min(...rows)}–${Math.max(...rows)}`, ...[...rests].filter(Boolean)].join(" × ");
}
