// A minimal anywidget host in a plain page: what JupyterLab does, without JupyterLab.
// `window.sglabToPython` (bound by widget_host.py) carries messages to the Python widget and returns its answers.

class Model {
  #state = {};
  #changed = new Set();
  #listeners = new Map();
  widget_manager = {};

  constructor(id) {
    this.id = id;
  }
  get(name) {
    return this.#state[name];
  }
  set(name, value) {
    if (JSON.stringify(this.#state[name]) === JSON.stringify(value)) return;
    this.#state[name] = value;
    this.#changed.add(name);
    this.emit(`change:${name}`);
  }
  save_changes() {
    const state = Object.fromEntries([...this.#changed].map((name) => [name, this.#state[name]]));
    this.#changed.clear();
    this.#toPython({ method: "update", state, buffer_paths: [] });
  }
  send(content) {
    this.#toPython({ method: "custom", content });
  }
  on(name, listener) {
    this.#listeners.set(name, [...(this.#listeners.get(name) ?? []), listener]);
  }
  off(name, listener) {
    this.#listeners.set(name, (this.#listeners.get(name) ?? []).filter((each) => each !== listener));
  }
  get listenerCount() {
    return [...this.#listeners.values()].reduce((sum, each) => sum + each.length, 0);
  }
  emit(name, ...values) {
    for (const listener of this.#listeners.get(name) ?? []) listener(...values);
  }
  async #toPython(data) {
    for (const message of await quiet.during(window.sglabToPython(this.id, data))) this.receive(message);
  }
  receive({ data, buffers }) {
    if (data.method === "custom") return this.emit("msg:custom", data.content, buffers.map(toView));
    if (data.method !== "update") return;
    for (const [number, path] of (data.buffer_paths ?? []).entries()) {
      const inner = path.slice(0, -1).reduce((value, key) => value[key], data.state);
      inner[path.at(-1)] = toView(buffers[number]);
    }
    const changed = Object.keys(data.state).filter((name) => this.#state[name] !== data.state[name]);
    Object.assign(this.#state, data.state);
    for (const name of changed) this.emit(`change:${name}`);
  }
}

/** At an odd offset, as messages' buffers come. */
function toView(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length + 3);
  for (let i = 0; i < text.length; i++) bytes[i + 3] = text.charCodeAt(i);
  return new DataView(bytes.buffer, 3);
}

const models = new Map();

window.sglabHost = {
  modules: new Map(),
  models,
  async load(name, source) {
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    this.modules.set(name, await import(url));
  },
  async show(id, bundle, state, elementId) {
    const model = models.get(id) ?? new Model(id);
    models.set(id, model);
    model.receive(state);
    const el = document.createElement("div");
    el.id = elementId;
    document.body.append(el);
    const cleanup = await this.modules.get(bundle).default.render({ model, el });
    el.sglabDispose = () => {
      cleanup();
      el.remove();
    };
  },
  deliver(id, message) {
    models.get(id).receive(message);
  },
};
