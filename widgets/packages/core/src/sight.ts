// What is only for the eye can wait until there is something to see: pages hold many widgets of one session.

import type { Disposer } from "./emitter";

export type WhenInSight = (name: string, work: () => void) => void;

/**
 * Runs work now where any of the element is in sight, else once when it comes into sight: of the same name the latest.
 */
export function whenInSight(element: Element, disposer: Disposer): WhenInSight {
  const waiting = new Map<string, () => void>();
  let seen = true; // until the browser says otherwise, which it does soon
  const observer = new IntersectionObserver((changes) => {
    seen = changes[changes.length - 1]?.isIntersecting ?? seen;
    if (!seen) return;
    const due = [...waiting.values()];
    waiting.clear();
    for (const work of due) work();
  });
  observer.observe(element);
  disposer.add(() => {
    observer.disconnect();
    waiting.clear();
  });
  return (name, work) => {
    if (seen) work();
    else {
      waiting.delete(name); // what is newer is done later
      waiting.set(name, work);
    }
  };
}
