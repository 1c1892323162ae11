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

export default {
  async render(context) {
    const { default: widget } = await load(context.model.get("module"));
    return widget.render(context);
  },
};
