// How many pixels of a canvas make one of the page: the screen's, or more for a picture that is saved.

let raised = 0;

/** What canvases are drawn with. */
export function pixelRatio(): number {
  return Math.max(raised, devicePixelRatio || 1);
}

/** Told to a widget's root: draw again, the pixels are others. */
export const REDRAW = "sglab:redraw";
const FRAMES = 10;

/** Has the canvases below `root` drawn with at least `ratio` while `work` runs, and as for the screen afterwards. */
export async function withPixels<T>(root: HTMLElement, ratio: number, work: () => T): Promise<T> {
  if (ratio <= pixelRatio() || !root.querySelector("canvas")) return work();
  raised = ratio;
  try {
    root.dispatchEvent(new Event(REDRAW));
    for (let i = 0; i < FRAMES && !isSharp(root, ratio); i++) await new Promise(requestAnimationFrame);
    return work();
  } finally {
    raised = 0;
    root.dispatchEvent(new Event(REDRAW));
  }
}

function isSharp(root: HTMLElement, ratio: number): boolean {
  return [...root.querySelectorAll("canvas")].every(
    (canvas) => canvas.width >= Math.floor(canvas.clientWidth * ratio),
  );
}
