// Brings launches to a widget: the cluster that Python publishes, over the axis that the reader chose, and the cluster that
// the notebook's selection leads to.

import { type Context, type Frame, failure, type WhenInSight } from "@sglab/core";
import type { CommandName, Requests } from "@sglab/protocol";
import type { AxisChoice } from "./axis_choice";
import { type Launch, readLaunch } from "./data";
import { PageIndex } from "./pages";
import type { Launched } from "./protocol";
import { readTimes, timedLaunch } from "./timed";

export interface LoaderActions {
  /** Another cluster, or the same over another axis; `moment` is to be kept, if there was one. */
  load: (launch: Launch, moment: number | undefined) => void;
  /** The moment shown now. */
  moment: () => number | undefined;
}

export class LaunchLoader {
  #issued: Launch | undefined;
  #pages: PageIndex | undefined;

  constructor(
    private context: Context<Launched>,
    private frame: Frame,
    private axis: AxisChoice,
    private inSight: WhenInSight,
    private actions: LoaderActions,
  ) {
    const { source, selection, disposer } = context;
    source.onChange("revision", () => void this.reload());
    disposer.add(
      selection.on((_, origin) => origin !== frame && this.inSight("cluster", () => this.#follow())),
    );
    frame.setPlaceholder({ kind: "loading", text: "Reading what was recorded." });
    void this.reload();
  }

  async reload(): Promise<void> {
    try {
      const launch = await readLaunch(this.context.source);
      if (!launch) return;
      const first = this.#issued === undefined;
      this.#issued = launch;
      this.#pages = new PageIndex(launch);
      this.axis.load(launch.meta);
      await this.#show(undefined);
      if (first) this.#follow();
    } catch (error) {
      this.frame.setPlaceholder(failure(this.context.source, error));
    }
  }

  /** Draws the launch over the chosen axis. The moment stays. */
  async switchAxis(): Promise<void> {
    try {
      await this.#show(this.actions.moment());
    } catch (error) {
      this.frame.notify("error", (error as Error).message);
    }
  }

  async #show(moment: number | undefined): Promise<void> {
    const { source } = this.context;
    const launch = this.#issued;
    if (!launch) return;
    const revision = source.get("revision");
    const shown = this.axis.timed ? timedLaunch(launch, await readTimes(source)) : launch;
    if (source.get("revision") === revision) this.actions.load(shown, moment);
  }

  /** A command of the widget's Python side. */
  async ask<Name extends CommandName<Launched>>(
    command: Name,
    request: Requests<Launched>[Name],
  ): Promise<void> {
    this.frame.clearNotice();
    try {
      await this.context.source.call(command, request);
    } catch (error) {
      this.frame.notify("error", (error as Error).message);
    }
  }

  /** Shows the cluster that holds what was selected elsewhere: a CTA, or who reads a page or a request. */
  #follow(): void {
    const { source, selection } = this.context;
    const launch = this.#issued;
    if (!source.live || !launch) return;
    const { meta } = launch;
    const { cta } = selection.value;
    const wanted = cta !== undefined ? [cta] : (this.#pages?.ctasOf(selection.value) ?? []);
    const [first] = wanted;
    if (first === undefined || first >= meta.gridCtas || wanted.some((each) => meta.ctas.includes(each)))
      return;
    void this.ask("show_cta", { cta: first });
  }
}
