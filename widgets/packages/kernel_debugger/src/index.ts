// KernelDebugger: a launch on the emulator, stepped in its source and its PTX. Python moves it; this page asks and draws.

import type { KERNEL_DEBUGGER } from "./protocol";
import "./kernel_debugger.css";
import { type Context, defineWidget, makeFrame, watchTheme } from "@sglab/core";
import { CodeModel } from "./code_model";
import { Driver } from "./driver";
import { openBackend } from "./open_backend";
import { SessionTransport } from "./session_transport";
import { makeView, type View } from "./view";

function render({ el, source, selection, disposer }: Context<typeof KERNEL_DEBUGGER>): void {
  let driver: Driver | undefined;
  let view: View | undefined;
  const transport = new SessionTransport(() => driver);
  const frame = makeFrame(el, disposer, {
    source,
    transport,
    onEscape: () => view?.escape(),
    keys: () => view?.keys() ?? [],
  });
  frame.setHeader(source.get("header"));
  frame.setPlaceholder({ kind: "loading", text: "Reading the kernel's code." });
  const theme = watchTheme(frame.root, disposer, () => view?.repaint());

  const open = async () => {
    const code = await CodeModel.read(source);
    driver = new Driver(await openBackend(source, code));
    view = makeView({ frame, source, selection, disposer, transport, driver, code, theme });
    await view.open();
    frame.setPlaceholder(null);
    driver.refresh();
  };
  open().catch((error: Error) => {
    frame.setPlaceholder({
      kind: "error",
      text: error.message,
      remedy: "Run the cell again.",
    });
  });
  source.onChange("moved", () => {
    // Python moved the session, or another view of it did
    if (driver && !driver.working && driver.state?.moved !== source.get("moved")) driver.refresh();
  });
}

export default defineWidget<typeof KERNEL_DEBUGGER>({ name: "kernel_debugger", version: 1, render });
