// A notebook's kernel, as the panel and the tabs see it: what it has that a widget opens on. Asked again after every cell.

import type { NotebookPanel } from "@jupyterlab/notebook";
import type { IKernelConnection, IMessage, ISessionContext } from "@jupyterlab/services";
import { Signal } from "@lumino/signaling";
import { expression, NotImportedError, type Questions, readAnswer, type Thing } from "./question";

/** `things`, or a sentence that says why there are none. */
export type State = { kind: "things"; things: Thing[] } | { kind: Reason; text: string };
export type Reason = "no kernel" | "other language" | "not imported" | "error";

const NO_KERNEL = "This notebook has no kernel.";
const OTHER_LANGUAGE = "sglab speaks to Python kernels only; this one runs another language.";
const NOT_IMPORTED = "This notebook has not imported sglab yet.";

export class NotebookKernel {
  readonly changed = new Signal<this, void>(this);
  state: State | null = null;
  /** Counts kernels: what one of them had, the next has not. */
  generation = 0;
  #asking = false;
  #stale = true;
  #context: ISessionContext;

  constructor(readonly panel: NotebookPanel) {
    this.#context = panel.sessionContext;
    this.#context.kernelChanged.connect(this.#replaced);
    this.#context.statusChanged.connect(this.#status);
    this.#context.iopubMessage.connect(this.#heard);
    panel.disposed.connect(() => Signal.clearData(this));
    void this.refresh();
  }

  get path(): string {
    return this.panel.context.path;
  }

  get kernel(): IKernelConnection | null {
    return this.panel.isDisposed ? null : (this.#context.session?.kernel ?? null);
  }

  /** Whether cells run: what they make is not known yet. */
  get busy(): boolean {
    return this.kernel?.status === "busy";
  }

  get things(): Thing[] {
    return this.state?.kind === "things" ? this.state.things : [];
  }

  /** Asks the kernel one question; it answers between two cells. */
  async ask<Q extends keyof Questions>(
    question: Q,
    request: Questions[Q]["request"],
  ): Promise<Questions[Q]["answer"]> {
    const kernel = this.kernel;
    if (!kernel) throw new Error(NO_KERNEL);
    const code = "pass";
    const wanted = { answer: expression(question, request) };
    for (;;) {
      const reply = await kernel.requestExecute({
        code,
        silent: true,
        store_history: false,
        allow_stdin: false,
        stop_on_error: false,
        user_expressions: wanted,
      }).done;
      // A cell that fails takes what waits for the kernel down with it.
      if (reply?.content.status !== "aborted") return readAnswer<Q>(reply?.content.user_expressions?.answer);
    }
  }

  /** Lists again what there is; at most one list is under way. */
  async refresh(): Promise<void> {
    this.#stale = true;
    if (this.#asking) return;
    this.#asking = true;
    try {
      while (this.#stale) {
        this.#stale = false;
        const generation = this.generation;
        const state = await this.#list();
        if (generation === this.generation) this.#become(state);
      }
    } finally {
      this.#asking = false;
    }
  }

  async #list(): Promise<State> {
    await this.#context.ready; // after the page was loaded again its kernel runs, and is not connected yet
    const kernel = this.kernel;
    if (!kernel) return { kind: "no kernel", text: NO_KERNEL };
    try {
      if ((await kernel.info).language_info.name !== "python")
        return { kind: "other language", text: OTHER_LANGUAGE };
      return { kind: "things", things: (await this.ask("list", {})).things };
    } catch (error) {
      if (error instanceof NotImportedError) return { kind: "not imported", text: NOT_IMPORTED };
      return { kind: "error", text: error instanceof Error ? error.message : String(error) };
    }
  }

  #become(state: State): void {
    if (this.panel.isDisposed || JSON.stringify(state) === JSON.stringify(this.state)) return;
    this.state = state;
    this.changed.emit();
  }

  #ran = false;

  #heard = (_: unknown, message: IMessage): void => {
    if (message.header.msg_type === "execute_input") this.#ran = true; // a cell: silent questions have none
  };

  #status = (_: unknown, status: string): void => {
    if (status === "restarting" || status === "autorestarting") this.#replaced();
    if (status !== "idle" || !this.#ran) return;
    this.#ran = false;
    void this.refresh();
  };

  #replaced = (): void => {
    this.generation += 1;
    this.#ran = true; // asked again when the new one is idle
    this.#asking = false; // a question to the old one is never answered
    this.#become(
      this.kernel ? { kind: "not imported", text: NOT_IMPORTED } : { kind: "no kernel", text: NO_KERNEL },
    );
  };
}

const known = new WeakMap<NotebookPanel, NotebookKernel>();

/** The one of a notebook. */
export function kernelOf(panel: NotebookPanel): NotebookKernel {
  const found = known.get(panel) ?? new NotebookKernel(panel);
  known.set(panel, found);
  return found;
}
