// A widget made from a session and that session go together: moving one moves the other. A moment that another widget
// selects is gone to as well. What is not in sight goes to the newest of both, once it is seen.

import {
  type Disposer,
  missedMoment,
  type SelectionStore,
  type Transport,
  type WhenInSight,
} from "@sglab/core";
import type { Clock } from "./clock";
import type { LaunchSource } from "./protocol";

const SETTLE_MS = 80;

/** Where a widget opens: at its session's position, a saved one where that was when it was saved, or at the start. */
export function firstStep(source: LaunchSource, clock: Clock): number {
  const now = source.get("now");
  return now < 0 ? 0 : clock.stepOf(now);
}

/** The moment to open at that was selected before; a session's own place comes first, unless it has not heard of that yet. */
export function selectedBefore(source: LaunchSource, selection: SelectionStore): number | undefined {
  const now = source.get("now");
  return now < 0 ? selection.value.moment : missedMoment(source, selection, now);
}

export interface Followed {
  source: LaunchSource;
  transport: Transport;
  selection: SelectionStore;
  disposer: Disposer;
  inSight: WhenInSight;
  clock: () => Clock | undefined;
  /** The widget, as the origin of what it selects itself. */
  own: unknown;
}

export function follow({ source, transport, selection, disposer, inSight, clock, own }: Followed): void {
  const show = (position: number) =>
    inSight("position", () => {
      const known = clock();
      if (known) transport.goTo(known.stepOf(position));
    });
  disposer.add(
    selection.on(({ moment }, origin) => {
      if (origin !== own && moment !== undefined && clock()) show(moment);
    }),
  );
  if (source.live) followSession(source, transport, disposer, clock, show);
}

function followSession(
  source: LaunchSource,
  transport: Transport,
  disposer: Disposer,
  clock: () => Clock | undefined,
  show: (position: number) => void,
): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let at: number | undefined; // where the session is, as far as this page knows
  let asked = 0; // moves that Python has not answered: until then it reports positions that the reader has already left
  const alone = () => source.connection === "lost"; // what is loaded can still be stepped through
  const fromPython = () => {
    const now = source.get("now");
    if (asked || timer !== undefined || now < 0 || now === at || !clock() || alone()) return;
    at = now;
    show(now);
  };
  const move = async (position: number) => {
    at = position;
    asked += 1;
    try {
      await source.call("seek", { position });
    } catch {
      // the connection's state is shown elsewhere
    }
    asked -= 1;
    fromPython();
  };
  const toPython = () => {
    const known = clock();
    const now = source.get("now");
    if (now < 0 || !known || alone() || known.stepOf(at ?? now) === transport.position) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      timer = undefined;
      void move(known.momentAt(transport.position));
    }, SETTLE_MS);
  };
  disposer.add(source.onChange("now", fromPython));
  disposer.add(transport.changed.on(toPython));
  disposer.add(() => clearTimeout(timer));
}
