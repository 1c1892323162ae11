// What widgets of a recorded run have in common: read it, say what went wrong, draw whenever there is room to draw in.

import type { Source } from "@sglab/protocol";
import type { framed } from "./dom";
import type { Disposer } from "./emitter";
import type { Frame, Placeholder } from "./frame";

/** What could not be read, and what helps: a cell can be run again, a file cannot. */
export function failure(source: Pick<Source, "live">, error: unknown): Placeholder {
  const remedy = source.live ? "Run the cell again." : "Save the widget again.";
  return { kind: "error", text: (error as Error).message, remedy };
}

/** Reads what there is now and at every revision, and shows it; draws again when the view's size or place changes. */
export function followRun<T>(
  { source, frame, disposer }: { source: Source; frame: Frame; disposer: Disposer },
  read: () => Promise<T>,
  show: (run: T) => void,
  draw: ReturnType<typeof framed>,
): void {
  const reload = async () => {
    const revision = source.get("revision");
    try {
      const run = await read();
      if (source.get("revision") !== revision) return; // a newer one is on its way
      frame.setHeader(source.get("header"));
      frame.setPlaceholder(null);
      show(run);
      draw.now();
    } catch (error) {
      frame.setPlaceholder(failure(source, error));
    }
  };
  const resized = new ResizeObserver(() => draw.schedule());
  resized.observe(frame.view);
  // JupyterLab takes cells out of the page and puts them back
  const visible = new IntersectionObserver(() => draw.schedule());
  visible.observe(frame.view);
  disposer.add(() => {
    draw.cancel();
    resized.disconnect();
    visible.disconnect();
  });
  disposer.add(source.onChange("revision", () => void reload()));
  frame.setHeader(source.get("header"));
  frame.setPlaceholder({ kind: "loading", text: "Reading what was recorded." });
  void reload();
}
