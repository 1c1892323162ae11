// What the extension uses of JupyterLab 4, under its names and without its type parameters. Its own packages would bring
// several hundred others for these few; at run time they come from the page.

declare module "@lumino/signaling" {
  export interface ISignal<S, A> {
    connect(slot: (sender: S, args: A) => void, thisArg?: unknown): boolean;
    disconnect(slot: (sender: S, args: A) => void, thisArg?: unknown): boolean;
  }
  export class Signal<S, A> implements ISignal<S, A> {
    constructor(sender: S);
    connect(slot: (sender: S, args: A) => void, thisArg?: unknown): boolean;
    disconnect(slot: (sender: S, args: A) => void, thisArg?: unknown): boolean;
    emit(args: A): void;
    static clearData(object: unknown): void;
  }
}

declare module "@lumino/widgets" {
  import type { ISignal } from "@lumino/signaling";

  export class Title {
    label: string;
    caption: string;
    icon: unknown;
    closable: boolean;
  }
  export class Widget {
    constructor(options?: { node?: HTMLElement });
    readonly node: HTMLElement;
    readonly title: Title;
    readonly disposed: ISignal<this, void>;
    readonly isDisposed: boolean;
    readonly isVisible: boolean;
    readonly parent: Widget | null;
    id: string;
    addClass(name: string): void;
    dispose(): void;
  }
  export class Panel extends Widget {
    addWidget(widget: Widget): void;
  }
}

declare module "@lumino/commands" {
  export type Args = Record<string, unknown>;
  export interface CommandOptions {
    label?: string | ((args: Args) => string);
    caption?: string;
    icon?: unknown;
    isEnabled?: () => boolean;
    execute: (args: Args) => unknown;
  }
  export class CommandRegistry {
    addCommand(id: string, options: CommandOptions): unknown;
    execute(id: string, args?: Args): Promise<unknown>;
    hasCommand(id: string): boolean;
    notifyCommandChanged(id?: string): void;
  }
}

declare module "@jupyterlab/services" {
  import type { ISignal } from "@lumino/signaling";

  export interface IMessage {
    header: { msg_type: string };
  }
  export interface IReply {
    content: { status: string; user_expressions?: Record<string, unknown> };
  }
  export interface IKernelConnection {
    readonly id: string;
    readonly status: string;
    readonly info: Promise<{ language_info: { name: string } }>;
    requestExecute(content: {
      code: string;
      silent?: boolean;
      store_history?: boolean;
      user_expressions?: Record<string, string>;
      allow_stdin?: boolean;
      stop_on_error?: boolean;
    }): { readonly done: Promise<IReply | undefined>; dispose(): void };
  }
  export interface IContents {
    newUntitled(options: { path?: string; type: string; ext?: string }): Promise<{ path: string }>;
    save(path: string, model: { type: "notebook"; format: "json"; content: unknown }): Promise<unknown>;
  }
  export interface IServiceManager {
    readonly contents: IContents;
    readonly kernelspecs: {
      readonly specs: {
        default: string;
        kernelspecs: Record<string, { display_name: string; language: string } | undefined>;
      } | null;
    };
  }
  export interface ISessionContext {
    readonly session: { readonly kernel: IKernelConnection | null } | null;
    readonly ready: Promise<void>;
    readonly kernelChanged: ISignal<ISessionContext, unknown>;
    readonly statusChanged: ISignal<ISessionContext, string>;
    readonly iopubMessage: ISignal<ISessionContext, IMessage>;
  }
}

declare module "@jupyterlab/rendermime" {
  import type { Widget } from "@lumino/widgets";

  export interface IRenderer extends Widget {
    renderModel(model: unknown): Promise<void>;
  }
  export interface IRenderMimeRegistry {
    createRenderer(mimeType: string): IRenderer;
  }
  export class MimeModel {
    constructor(options: { data: Record<string, unknown>; trusted: boolean });
  }
}

declare module "@jupyterlab/docregistry" {
  import type { ISessionContext } from "@jupyterlab/services";
  import type { ISignal } from "@lumino/signaling";
  import { Widget } from "@lumino/widgets";

  export interface IContext {
    readonly path: string;
    readonly localPath: string;
    readonly sessionContext: ISessionContext;
    readonly ready: Promise<void>;
    readonly model: { toString(): string; readonly contentChanged: ISignal<unknown, void> };
    readonly pathChanged: ISignal<IContext, string>;
  }
  export class DocumentWidget extends Widget {
    constructor(options: { content: Widget; context: IContext });
    readonly content: Widget;
    readonly context: IContext;
  }
  export interface FactoryOptions {
    name: string;
    label?: string;
    modelName?: string;
    fileTypes: readonly string[];
    defaultFor?: readonly string[];
    readOnly?: boolean;
  }
  export abstract class ABCWidgetFactory {
    constructor(options: FactoryOptions);
    readonly widgetCreated: ISignal<ABCWidgetFactory, DocumentWidget>;
    protected abstract createNewWidget(context: IContext): DocumentWidget;
  }
  export interface IDocumentRegistry {
    addFileType(type: Record<string, unknown>): unknown;
    addWidgetFactory(factory: ABCWidgetFactory): unknown;
  }
}

declare module "@jupyterlab/notebook" {
  import type { IContext } from "@jupyterlab/docregistry";
  import type { IRenderMimeRegistry } from "@jupyterlab/rendermime";
  import type { ISessionContext } from "@jupyterlab/services";
  import type { ISignal } from "@lumino/signaling";
  import type { Widget } from "@lumino/widgets";

  export interface NotebookPanel extends Widget {
    readonly context: IContext;
    readonly sessionContext: ISessionContext;
    readonly content: Widget & { readonly rendermime: IRenderMimeRegistry };
  }
  export interface INotebookTracker {
    readonly currentWidget: NotebookPanel | null;
    readonly currentChanged: ISignal<INotebookTracker, NotebookPanel | null>;
    readonly widgetAdded: ISignal<INotebookTracker, NotebookPanel>;
    find(test: (panel: NotebookPanel) => boolean): NotebookPanel | undefined;
  }
  export const INotebookTracker: unknown;
}

declare module "@jupyterlab/apputils" {
  import { Widget } from "@lumino/widgets";

  export class MainAreaWidget<T extends Widget = Widget> extends Widget {
    constructor(options: { content: T });
    readonly content: T;
    readonly toolbar: Widget & { addItem(name: string, item: Widget): boolean };
  }
  export class WidgetTracker<T extends Widget = Widget> {
    constructor(options: { namespace: string });
    readonly currentWidget: T | null;
    add(widget: T): Promise<void>;
    save(widget: T): Promise<void>;
    find(test: (widget: T) => boolean): T | undefined;
    forEach(visit: (widget: T) => void): void;
  }
  export interface ICommandPalette {
    addItem(item: { command: string; category: string; args?: Record<string, unknown> }): unknown;
  }
  export const ICommandPalette: unknown;
  export const InputDialog: {
    getItem(options: { title: string; label?: string; items: string[]; okLabel?: string }): Promise<{
      button: { accept: boolean };
      value: string | null;
    }>;
  };
  export const Dialog: { okButton(options?: { label: string }): unknown };
  export function showDialog(options: { title: string; body: string; buttons: unknown[] }): Promise<unknown>;
  export const Notification: {
    info(
      message: string,
      options?: { autoClose: number | false; actions?: { label: string; callback: () => void }[] },
    ): string;
    error(message: string, options?: { autoClose: number | false }): string;
    dismiss(id?: string): void;
  };
}

declare module "@jupyterlab/application" {
  import type { IDocumentRegistry } from "@jupyterlab/docregistry";
  import type { IServiceManager } from "@jupyterlab/services";
  import type { CommandRegistry } from "@lumino/commands";
  import type { ISignal } from "@lumino/signaling";
  import type { Widget } from "@lumino/widgets";

  export interface Placement {
    mode?: "split-right" | "split-left" | "split-bottom" | "split-top" | "tab-after" | "tab-before";
    ref?: string;
    rank?: number;
    activate?: boolean;
  }
  export interface IShell {
    readonly currentWidget: Widget | null;
    readonly currentChanged?: ISignal<IShell, unknown>;
    add(widget: Widget, area: string, options?: Placement): void;
    activateById(id: string): void;
  }
  export interface JupyterFrontEnd {
    readonly shell: IShell;
    readonly commands: CommandRegistry;
    readonly docRegistry: IDocumentRegistry;
    readonly serviceManager: IServiceManager;
    readonly restored: Promise<void>;
  }
  export interface JupyterFrontEndPlugin {
    id: string;
    description: string;
    autoStart: boolean;
    requires?: unknown[];
    optional?: unknown[];
    // biome-ignore lint/suspicious/noExplicitAny: services come in the order of `requires` and `optional`
    activate: (app: JupyterFrontEnd, ...services: any[]) => void;
  }
  export interface ILabShell extends IShell {
    collapseLeft(): void;
  }
  export const ILabShell: unknown;
  export interface ILayoutRestorer {
    add(widget: Widget, name: string): void;
    restore(
      tracker: unknown,
      options: {
        command: string;
        args: (widget: never) => Record<string, unknown>;
        name: (widget: never) => string;
      },
    ): Promise<unknown>;
  }
  export const ILayoutRestorer: unknown;
}

declare module "@jupyterlab/launcher" {
  export interface ILauncher {
    add(item: { command: string; category: string; rank?: number; kernelIconUrl?: string }): unknown;
  }
  export const ILauncher: unknown;
}

declare module "@jupyterlab/ui-components" {
  export class LabIcon {
    constructor(options: { name: string; svgstr: string });
  }
}

declare module "@jupyterlab/coreutils" {
  export const PageConfig: { getOption(name: string): string };
}
