/** Listeners of one kind of event. `on` returns the function that removes the listener. */
export class Emitter<T = void> {
  #listeners = new Set<(value: T) => void>();

  on(listener: (value: T) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  emit(value: T): void {
    for (const listener of [...this.#listeners]) listener(value);
  }
}

/** Things to undo when a view goes, last first. */
export class Disposer {
  #undo: (() => void)[] = [];

  add(undo: () => void): void {
    this.#undo.push(undo);
  }

  listen<K extends keyof HTMLElementEventMap>(
    target: HTMLElement,
    type: K,
    listener: (event: HTMLElementEventMap[K]) => void,
    options?: AddEventListenerOptions,
  ): void {
    target.addEventListener(type, listener, options);
    this.add(() => target.removeEventListener(type, listener, options));
  }

  dispose(): void {
    for (const undo of this.#undo.splice(0).reverse()) undo();
  }
}
