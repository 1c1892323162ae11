// What anywidget imports for each widget: it loads the widget's own module, once per page. A page never lets go of a module
// that it has imported, so one per widget would add up with every cell that runs again.

const KEY = Symbol.for("sglab.modules.v1");

function load(code) {
  globalThis[KEY] ??= new Map();
  const modules = globalThis[KEY];
  if (!modules.has(code)) {
    const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    const module = import(url).finally(() => URL.revokeObjectURL(url));
    module.catch(() => modules.delete(code)); // the next view tries again
    modules.set(code, module);
  }
  return modules.get(code);
}

// anywidget 0.11 drops every message to a widget whose start took its page longer than two seconds, for ever: its handler
// awaits a promise that is then rejected. Nothing here starts before it renders, so the handler below it will do.
function hear(model) {
  let own;
  const find = function () {
    own = this?.model; // anywidget calls with its view as `this`
  };
  model.on("change:sglab_heard", find);
  model.set("sglab_heard", (model.get("sglab_heard") ?? 0) + 1);
  model.off("change:sglab_heard", find);
  const handle = own && Object.getPrototypeOf(own.constructor.prototype)?._handle_comm_msg;
  if (handle && own.comm?.on_msg) own.comm.on_msg(handle.bind(own));
}

export default {
  async render(context) {
    hear(context.model);
    const { default: widget } = await load(context.model.get("module"));
    return widget.render(context);
  },
};
