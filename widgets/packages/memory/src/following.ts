// A page over a session's moments: it asks Python to move, follows when others have moved, and shares the moment.
// Without Python it steps through the moments that were saved.

import {
  type Arrival,
  countUpTo,
  type Disposer,
  type Frame,
  failure,
  type Granularity,
  type Mark,
  type Motion,
  missedMoment,
  type SelectionStore,
  selectTold,
  type Transport,
  whenInSight,
} from "@sglab/core";
import type { Numbers } from "@sglab/protocol";
import type { MemorySource, ShownMoment } from "./protocol";

/** The events of the moments, ascending. */
export interface MomentList {
  length: number;
  position: Numbers;
}

/** How the transport speaks of moments; positions count those that have happened. */
export interface Steps {
  moments: MomentList;
  granularities: Granularity[];
  marks?: Mark[];
  describe: (position: number) => string;
  eventsOfSelection?: () => ArrayLike<number> | undefined;
}

export interface Following {
  /** Shows another launch. */
  steps(next: Steps): void;
  /** Number of the frame that is shown: the only one of a live session. */
  readonly frame: number;
  /** Goes just after an event of the launch, or as near as there are moments. */
  goToEvent(event: number): void;
  reload(): void;
}

export interface FollowOptions {
  source: MemorySource;
  selection: SelectionStore;
  disposer: Disposer;
  transport: Transport;
  frame: Frame;
  /** Reads what Python published. */
  load: () => Promise<void>;
  /** Draws the frame that is shown now. */
  show: () => Promise<void> | void;
}

export function followSession(options: FollowOptions): Following {
  const { source, selection, disposer, transport, frame, load, show } = options;
  let known: Steps | undefined;
  let drawn = Promise.resolve();
  let loading = false;
  let followed = false;
  let caughtUp = false;
  const frames = () => source.get("frames");
  const shown = () => (source.live ? 0 : transport.position);
  const momentNow = () => frames()[shown()]?.moment ?? 0;
  const fail = (error: unknown) => frame.notify("error", (error as Error).message);

  const reload = () => {
    drawn = load()
      .then(() => {
        const moment = momentNow();
        if (source.live && known && !transport.moving && moment !== transport.position)
          transport.load(transport.track, moment);
        catchUp();
      })
      .catch((error: unknown) => {
        frame.setPlaceholder(failure(source, error));
      });
  };

  /** Once, when there is a session to move: what a cell selected meanwhile. */
  function catchUp(): void {
    if (caughtUp || !known) return;
    caughtUp = true;
    const missed = missedMoment(source, selection, frames()[0]?.position ?? 0);
    if (missed !== undefined) inSight("news", () => follow(missed));
  }

  const go = async (moment: number) => {
    const before = selection.value;
    await source.call("go", { moment, wanted: source.read(), selected: { ...before } });
    await drawn;
    // a message of its own would make the notebook busy once more, and the page draw that
    if (selection.value === before) selectTold(announce);
    else announce();
  };

  function announce(): void {
    const moment = momentNow();
    const executed = moment > 0 ? (known?.moments.position[moment - 1] as number) + 1 : 0;
    if (known) selection.set({ ...selection.value, moment: executed }, frame);
  }

  /** Another widget went to where that many instructions have been executed: it has notified all. */
  function follow(position: number): void {
    if (!known || transport.moving) return;
    if (source.live) source.call("follow", { position, wanted: source.read() }).catch(fail);
    else {
      followed = true;
      showEvent(position - 1);
      followed = false;
    }
  }

  function showEvent(event: number): void {
    if (!known) return;
    const moment = countUpTo(known.moments.position, event);
    const nearest = () =>
      Math.max(
        0,
        frames().findLastIndex((each) => each.moment <= moment),
      );
    transport.goTo(source.live ? moment : nearest());
  }

  source.onChange("revision", reload);
  const inSight = whenInSight(frame.root, disposer);
  source.onChange("stale", () => {
    if (source.live) inSight("news", () => source.call("catch_up", { wanted: source.read() }).catch(fail));
  });
  disposer.add(transport.failed.on(fail));
  disposer.add(
    transport.changed.on(() => {
      if (source.live) return;
      const stepped = !loading && !followed; // by the reader
      void Promise.resolve(show()).then(() => stepped && announce());
    }),
  );
  disposer.add(
    selection.on((value, origin) => {
      const { moment } = value;
      if (origin !== frame && moment !== undefined) inSight("news", () => follow(moment));
    }),
  );

  return {
    get frame() {
      return shown();
    },
    reload,
    goToEvent: showEvent,
    steps(next) {
      known = next;
      loading = true;
      if (source.live) transport.load(liveTrack(next, transport, go, momentNow), momentNow());
      else
        transport.load(
          savedTrack(next, frames()),
          Math.max(
            0,
            frames().findIndex(({ opens }) => opens),
          ),
        );
      loading = false;
    },
  };
}

function timeOf({ position }: MomentList, moment: number): string {
  return `instruction ${moment === 0 ? 0 : (position[moment - 1] as number).toLocaleString("en-US")}`;
}

function savedTrack({ moments, describe }: Steps, frames: readonly ShownMoment[]) {
  const at = (index: number) => frames[index]?.moment ?? 0;
  return {
    length: frames.length - 1,
    granularities: [{ id: "moment", label: "recorded moment" }],
    describe: (index: number) => describe(at(index)),
    time: (index: number) => `${timeOf(moments, at(index))}, event ${at(index)} of ${moments.length}`,
  };
}

function liveTrack(
  steps: Steps,
  transport: Transport,
  go: (moment: number) => Promise<void>,
  momentNow: () => number,
) {
  const { moments, granularities, marks = [], describe, eventsOfSelection } = steps;
  return {
    length: moments.length,
    granularities,
    marks,
    describe,
    time: (moment: number) => timeOf(moments, moment),
    eventsOfSelection: () => eventsOfSelection?.(),
    move: async (motion: Motion): Promise<Arrival> => {
      await go(targetOf(motion, transport.position, steps));
      return { position: momentNow() }; // another page may have moved it further
    },
  };
}

/** The position that a motion means. */
function targetOf(
  motion: Motion,
  from: number,
  { moments, granularities, eventsOfSelection }: Steps,
): number {
  switch (motion.kind) {
    case "to":
      return Math.max(0, Math.min(moments.length, motion.position));
    case "end":
      return moments.length;
    case "selection":
      return neighbour(eventsOfSelection?.(), from, motion.direction) ?? from;
    case "step": {
      const stops = granularities.find((each) => each.id === motion.granularity)?.stops;
      const last = motion.direction > 0 ? moments.length : 0;
      let at = from;
      for (let i = 0; i < motion.count; i++)
        at = stops ? (neighbour(stops, at, motion.direction) ?? last) : at + motion.direction;
      return Math.max(0, Math.min(moments.length, at));
    }
  }
}

function neighbour(stops: ArrayLike<number> | undefined, at: number, direction: 1 | -1): number | undefined {
  if (!stops) return undefined;
  return direction > 0 ? stops[countUpTo(stops, at)] : stops[countUpTo(stops, at - 1) - 1];
}
