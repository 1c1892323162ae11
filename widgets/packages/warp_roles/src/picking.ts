// What the reader picks: events, operations, warps, barriers; and the ways from one to the next.

import type { SelectionStore, Timeline, Transport } from "@sglab/core";
import { barrierKey, barrierOf, rowsOf } from "@sglab/launch/names";
import { trailOf } from "@sglab/launch/pages";
import type { Selection } from "@sglab/protocol";
import { hitOf, type Picked, type Shown } from "./shown";
import type { Stretch } from "./stretches";

export class Picking {
  picked: Picked | undefined;

  constructor(
    private shown: () => Shown | undefined,
    private transport: Transport,
    private selection: SelectionStore,
    private timeline: () => Timeline,
    /** Says who selects, so that the widget knows its own selection. */
    private origin: unknown,
    private changed: () => void,
  ) {}

  forget(): void {
    this.picked = undefined;
    this.changed();
  }

  clear(): void {
    this.picked = undefined;
    this.selection.set({}, this.origin);
    this.changed();
  }

  /** Selects an event and goes to the moment after it. */
  event(index: number, bundle?: Stretch): void {
    const shown = this.shown();
    if (!shown || index < 0) return;
    const { launch, relations, pages } = shown;
    const { events, actions, operations } = launch;
    const at = events.at[index] as number;
    const action = relations.actionOf(at);
    const signals = operations.barrier[relations.operationOf(at) ?? -1] ?? -1;
    const barrier = action === undefined ? signals : (actions.barrier[action] as number);
    this.picked = { event: index, bundle };
    this.#select(shown, events.row[index] as number, index + 1, barrier, pages.selectionOf(at));
  }

  /** Selects an operation and goes to where it is carried out. */
  operation(operation: number, bundle?: Stretch): void {
    const shown = this.shown();
    if (!shown) return;
    const { operations, places } = shown.launch;
    const [row, barrier, done] = [operations.row, operations.barrier, operations.done].map(
      (column) => column[operation] as number,
    ) as [number, number, number];
    const issued = operations.event[operation] as number;
    this.picked = { operation, bundle };
    this.#select(shown, row, places.stepAt(done), barrier, shown.pages.selectionOf(issued));
  }

  #select(shown: Shown, row: number, step: number, barrier: number, reads: Selection): void {
    const { launch } = shown;
    const { meta } = launch;
    const chosen: Selection = {
      ...trailOf(launch, this.selection.value),
      ...reads,
      cta: meta.ctas[Math.floor(row / meta.warps)] as number,
      warp: row % meta.warps,
      moment: launch.clock.momentAt(step),
    };
    if (barrier >= 0) chosen.barrier = barrierKey(launch, barrier);
    this.transport.goTo(step);
    this.selection.set(chosen, this.origin);
    this.changed();
  }

  /** The event with this number in the launch. */
  numbered(event: number): void {
    this.event(this.shown()?.launch.places.indexOf(event) ?? -1);
  }

  /** A warp, or by one of its tracks a CTA. */
  row(row: number, bundle?: Stretch): void {
    const shown = this.shown();
    const subject = shown?.timeline.subjects[row];
    if (!shown || !subject) return;
    const { ctas, warps } = shown.launch.meta;
    const trail = trailOf(shown.launch, this.selection.value);
    this.picked = { row, bundle };
    const rank = "warp" in subject ? Math.floor(subject.warp / warps) : subject.rank;
    const warp = "warp" in subject ? subject.warp % warps : undefined;
    this.selection.set({ ...trail, cta: ctas[rank], warp }, this.origin);
    this.changed();
  }

  barrier(barrier: number): void {
    const shown = this.shown();
    if (!shown) return;
    const { launch } = shown;
    const rank = launch.meta.barriers[barrier]?.rank ?? 0;
    const cta = launch.meta.ctas[rank] as number;
    this.picked = undefined;
    this.selection.set({ cta, barrier: barrierKey(launch, barrier) }, this.origin);
    this.changed();
  }

  /** What another widget selected: the warp's instruction that led to the moment, or nothing of ours. */
  follow({ cta, warp, moment }: Selection): void {
    this.picked = undefined;
    const launch = this.shown()?.launch;
    if (launch && moment !== undefined) {
      const index = launch.clock.stepOf(moment) - 1;
      const row = launch.events.row[index];
      if (row !== undefined && rowsOf(launch, { cta, warp }).includes(row) && warp !== undefined)
        this.picked = { event: index };
    }
    this.changed();
  }

  /** Makes a bundle, an instruction or an operation fill the view. */
  zoom(): void {
    const shown = this.shown();
    if (!shown || !this.picked) return;
    if (this.picked.bundle) this.zoomTo(this.picked.bundle);
    else this.timeline().reveal(hitOf(this.timeline(), shown, this.picked));
  }

  zoomTo({ start, end }: Stretch): void {
    const margin = (end - start) / 6;
    this.timeline().glide({ start: start - margin, end: end + margin });
  }

  nextWarp(step: number): void {
    const shown = this.shown();
    if (!shown) return;
    const { meta } = shown.launch;
    const all = meta.ctas.length * meta.warps;
    const rows = rowsOf(shown.launch, this.selection.value);
    const from = rows.length === 1 ? (rows[0] as number) : step > 0 ? -1 : all;
    const row = shown.timeline.rowOfWarp[Math.max(0, Math.min(all - 1, from + step))] as number;
    this.row(row);
    this.timeline().revealRow(row);
  }

  /** Stage by stage, ring by ring: what pressing a sector does. */
  nextBarrier(step: number): void {
    const shown = this.shown();
    if (!shown) return;
    const all = shown.launch.meta.pipelines.flatMap(({ full, empty }) => [...full, ...empty]);
    const at = all.indexOf(barrierOf(shown.launch, this.selection.value) ?? -1);
    const from = at >= 0 ? at : step > 0 ? -1 : all.length;
    const next = all[Math.max(0, Math.min(all.length - 1, from + step))];
    if (next !== undefined) this.barrier(next);
  }

  /**
   * Of the event that is picked, or was just executed. Where it has none: of one that ended a phase, to what its warp had
   * waited for before, so that a chain of causes leads on; else to the next event that waited.
   */
  cause(): void {
    const shown = this.shown();
    if (!shown) return;
    const { relations, launch } = shown;
    const of = (index: number) => {
      const event = launch.events.at[index] as number;
      const cause = relations.causeOf(event);
      return cause === event ? undefined : cause; // the last to arrive at a barrier waits for nobody
    };
    const at = this.#here();
    const cause = at < 0 ? undefined : of(at);
    if (cause !== undefined) this.numbered(cause);
    else if (at >= 0 && relations.phasesEndedBy(launch.events.at[at] as number).length)
      this.event(this.#lastEvent(at, (index) => of(index) !== undefined));
    else this.event(this.#nextEvent(at, (index) => of(index) !== undefined));
  }

  effect(): void {
    const shown = this.shown();
    if (!shown) return;
    const { relations, launch } = shown;
    const of = (index: number) => {
      const event = launch.events.at[index] as number;
      const released = relations.phasesEndedBy(event).flatMap((phase) => relations.releasedBy(phase));
      return released.find((each) => each.event !== event);
    };
    const at = this.#here();
    const first = at < 0 ? undefined : of(at);
    if (first) this.numbered(first.event);
    else this.event(this.#nextEvent(at, (index) => of(index) !== undefined));
  }

  #here(): number {
    return this.picked && "event" in this.picked ? this.picked.event : this.transport.position - 1;
  }

  /** The first event after `at` of the selected warps, or of any, for which `holds`; -1: none. */
  #nextEvent(at: number, holds: (index: number) => boolean): number {
    const { events } = (this.shown() as Shown).launch;
    const rows = new Set(rowsOf((this.shown() as Shown).launch, this.selection.value));
    for (let index = at + 1; index < events.size; index++)
      if ((!rows.size || rows.has(events.row[index] as number)) && holds(index)) return index;
    return -1;
  }

  /** The last event before `at` of its warp for which `holds`; -1: none. */
  #lastEvent(at: number, holds: (index: number) => boolean): number {
    const { row } = (this.shown() as Shown).launch.events;
    for (let index = at - 1; index >= 0; index--) if (row[index] === row[at] && holds(index)) return index;
    return -1;
  }

  /** The next event that matches, and which of how many it is. */
  find(query: string, direction: 1 | -1): string {
    const shown = this.shown();
    if (!shown) return "still loading";
    const found = shown.search.next(query, this.transport.position - 1, direction);
    if (!found) return query.trim() ? "nothing found" : "";
    this.event(found.index);
    return `${found.number} of ${found.count}`;
  }
}
