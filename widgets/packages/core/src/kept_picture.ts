// Sends the widget's picture to Python, which stores it in the notebook's output; hides the stored one while this is live.

import type { Common, Source } from "@sglab/protocol";
import { h } from "./dom";
import type { Disposer } from "./emitter";
import { pictureOf, pixelsOf } from "./picture";

const SOON_MS = 700; // a notebook that is saved right after a cell's run has a picture
const STILL_MS = 3000; // without a key or a press
const EVENTS = ["keydown", "pointerdown", "input"] as const;

const unfinished = (root: HTMLElement) =>
  root.dataset.placeholder === "loading" || root.querySelector("[aria-busy=true]") !== null;

export function keepPicture(el: HTMLElement, source: Source<Common>, disposer: Disposer): void {
  const place = source.get("picture_place");
  if (!place) return;
  const hidden = h("style", {}, `.${CSS.escape(place)} { display: none; }`);
  document.head.append(hidden);
  disposer.add(() => hidden.remove());
  let timer: ReturnType<typeof setTimeout> | undefined;
  let sent = ""; // the first is sent whatever the reader does; what is drawn after it, once it stands still
  const wait = (ms = STILL_MS) => {
    clearTimeout(timer);
    timer = setTimeout(() => void send(), ms);
  };
  const send = async () => {
    const root = el.querySelector<HTMLElement>(".sg-widget");
    if (source.connection === "lost") return;
    if (!root?.offsetWidth || unfinished(root) || source.connection === "waiting") {
      wait(sent ? STILL_MS : SOON_MS); // out of the page, as what a notebook has scrolled away; or Python, which later cells keep busy, has not answered
      return;
    }
    try {
      const shown = pictureOf(root);
      if (shown.svg === sent) return;
      if (!sent) wait();
      sent = shown.svg;
      const dark = root.dataset.dark === "true";
      await source.call("keep_picture", { picture: await pixelsOf(shown, 1, "image/webp"), dark });
    } catch {
      // a picture that a browser cannot make is missed by no reader of the live widget
    }
  };
  for (const type of EVENTS) disposer.listen(el, type, () => sent && wait(), { capture: true });
  disposer.add(() => clearTimeout(timer));
  wait(SOON_MS);
}
