// Where the reader is, for Python, which saves it: a saved page opens there.

import type { Source } from "@sglab/protocol";
import type { Disposer } from "./emitter";

const SETTLE_MS = 80;

/** Returns what hears that the reader has moved. Python is told once they rest elsewhere than at `opened`. */
export function keepPlace<Place>(
  { live, connection }: { live: boolean; connection: () => Source["connection"] },
  disposer: Disposer,
  place: () => Place,
  tell: (place: Place) => void,
): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let told = "";
  const settle = () => {
    const now = place();
    const text = JSON.stringify(now);
    if (text === told || connection() === "lost") return;
    const opened = told === "";
    told = text;
    if (!opened) tell(now);
  };
  disposer.add(() => clearTimeout(timer));
  return () => {
    if (!live) return;
    if (told === "") settle();
    clearTimeout(timer);
    timer = setTimeout(settle, SETTLE_MS);
  };
}
