// What JupyterLab's page gives the extension at run time, as far as tests need it: vitest.config.mjs puts it in its place.

type Slot = (sender: unknown, value: unknown) => void;

export class Signal {
  #slots: Slot[] = [];

  constructor(private sender: unknown) {}

  connect(slot: Slot): boolean {
    this.#slots.push(slot);
    return true;
  }

  emit(value?: unknown): void {
    for (const slot of [...this.#slots]) slot(this.sender, value);
  }

  static clearData(): void {}
}

/** What was told to the reader, and what the reader chooses. */
export const told: string[] = [];
export const actions: { label: string; callback: () => void }[] = [];
/** Notifications that were taken away. */
export const dismissed: string[] = [];
export const Notification = {
  info: (text: string, options?: { actions?: typeof actions }) => {
    told.push(text);
    actions.splice(0, actions.length, ...(options?.actions ?? []));
    return `note ${told.length}`;
  },
  dismiss: (id: string) => void dismissed.push(id),
  error: (text: string) => void told.push(`error: ${text}`),
};
export const showDialog = ({ title, body }: { title: string; body: string }) =>
  void told.push(`${title}: ${body}`);
export const Dialog = { okButton: () => ({}) };
export const chosen: { label: string | undefined; offered: string[] } = { label: undefined, offered: [] };
export const InputDialog = {
  async getItem({ items }: { items: string[] }) {
    chosen.offered = items;
    return { button: { accept: chosen.label !== undefined }, value: chosen.label ?? null };
  },
};
