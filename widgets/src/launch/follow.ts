// A widget made from a session and that session go together: moving one moves the other.

import type { Disposer, Source, Transport } from "../core";
import type { Places } from "./places";

const SETTLE_MS = 80;

export function followSession(
  source: Source,
  transport: Transport,
  disposer: Disposer,
  places: () => Places | undefined,
): void {
  if (!source.live) return;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let at: number | undefined; // where the session is, as far as this page knows
  const fromPython = () => {
    const now = source.get<number>("now");
    const known = places();
    if (now < 0 || now === at || !known) return;
    at = now;
    transport.goTo(known.stepAt(now));
  };
  const toPython = () => {
    const known = places();
    const now = source.get<number>("now");
    if (now < 0 || !known || known.stepAt(at ?? now) === transport.position) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      at = known.positionAt(transport.position);
      source.call("seek", { position: at }).catch(() => {}); // the connection's state is shown elsewhere
    }, SETTLE_MS);
  };
  disposer.add(source.onChange("now", fromPython));
  disposer.add(transport.changed.on(toPython));
  disposer.add(() => clearTimeout(timer));
}
