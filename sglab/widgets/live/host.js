// The page's side of a live page: anywidget's contract, with Python at the other end of HTTP. See comm.py for messages.

const me = crypto.randomUUID();
const text = new TextDecoder();
let telling = Promise.resolve(); // one after the other: requests that run side by side may overtake each other

class Model {
  #state = {};
  #changed = new Set();
  #listeners = new Map();
  widget_manager = {};

  constructor(number) {
    this.number = number;
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
    this.#tell({ method: "update", state, buffer_paths: [] });
  }
  send(content) {
    this.#tell({ method: "custom", content });
  }
  on(name, listener) {
    this.#listeners.set(name, [...(this.#listeners.get(name) ?? []), listener]);
  }
  off(name, listener) {
    this.#listeners.set(name, (this.#listeners.get(name) ?? []).filter((each) => each !== listener));
  }
  emit(name, ...values) {
    for (const listener of this.#listeners.get(name) ?? []) listener(...values);
  }
  #tell(data) {
    const body = JSON.stringify({ page: me, widget: this.number, data });
    telling = telling.then(() => bytes("tell", { method: "POST", body })).catch(lost);
  }
  receive(data, buffers) {
    if (data.method === "custom") return this.emit("msg:custom", data.content, buffers);
    if (data.method !== "update") return;
    for (const [number, path] of (data.buffer_paths ?? []).entries()) {
      const inner = path.slice(0, -1).reduce((value, key) => value[key], data.state);
      inner[path.at(-1)] = buffers[number];
    }
    const changed = Object.keys(data.state).filter((name) => this.#state[name] !== data.state[name]);
    Object.assign(this.#state, data.state);
    for (const name of changed) this.emit(`change:${name}`);
  }
}

const models = new Map();

async function bytes(path, options) {
  const response = await fetch(path, options);
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return new DataView(await response.arrayBuffer());
}

/** Hands the messages that begin at `at` to their models. */
function deliver(view, at) {
  while (at < view.byteLength) {
    const size = view.getUint32(at, true);
    receive(new DataView(view.buffer, view.byteOffset + at + 4, size));
    at += 4 + size;
  }
}

function receive(view) {
  let at = 4 + view.getUint32(0, true);
  const { widget, data, sizes } = JSON.parse(text.decode(new Uint8Array(view.buffer, view.byteOffset + 4, at - 4)));
  const buffers = sizes.map((size) => {
    at += size;
    return new DataView(view.buffer, view.byteOffset + at - size, size);
  });
  models.get(widget).receive(data, buffers);
}

function lost() {
  for (const model of models.values()) model.emit("comm:close");
}

async function follow(known) {
  try {
    for (;;) {
      const view = await bytes(`news?${me}&${known}`);
      known = view.getUint32(0, true);
      deliver(view, 4);
    }
  } catch {
    lost();
  }
}

const button = document.getElementById("theme");
function apply(theme) {
  document.body.dataset.sgTheme = theme;
  button.textContent = theme === "dark" ? "Light theme" : "Dark theme";
}
apply(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
button.onclick = () => apply(document.body.dataset.sgTheme === "dark" ? "light" : "dark");

let known = Number.POSITIVE_INFINITY;
for (const el of document.querySelectorAll("[data-widget]")) {
  const number = Number(el.dataset.widget);
  const model = new Model(number);
  models.set(number, model);
  const state = await bytes(`${number}.state`);
  known = Math.min(known, state.getUint32(0, true));
  receive(new DataView(state.buffer, 4));
  const module = await import(`./${number}.js`);
  await module.default.render({ model, el });
}
follow(known);
