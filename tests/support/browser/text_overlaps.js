// Which texts of a page's widgets lie on each other: those of the document, and those that canvases draw.
// Run before the page's own scripts; `textOverlaps()` then lists pairs.
(() => {
  const drawn = new WeakMap(); // canvas -> its texts since it was last cleared, in CSS pixels of the canvas
  const prototype = CanvasRenderingContext2D.prototype;
  const { fillText, clearRect } = prototype;
  prototype.fillText = function (text, x, y, ...rest) {
    fillText.call(this, text, x, y, ...rest);
    const size = this.measureText(text);
    const shrink = rest[0] === undefined ? 1 : Math.min(1, rest[0] / size.width);
    const matrix = this.getTransform();
    const corners = [
      [x - size.actualBoundingBoxLeft * shrink, y - size.actualBoundingBoxAscent],
      [x + size.actualBoundingBoxRight * shrink, y + size.actualBoundingBoxDescent],
    ].map(([left, top]) => matrix.transformPoint({ x: left, y: top }));
    const list = drawn.get(this.canvas) ?? [];
    drawn.set(this.canvas, list);
    list.push({
      text: String(text),
      left: Math.min(corners[0].x, corners[1].x),
      right: Math.max(corners[0].x, corners[1].x),
      top: Math.min(corners[0].y, corners[1].y),
      bottom: Math.max(corners[0].y, corners[1].y),
    });
  };
  prototype.clearRect = function (x, y, width, height) {
    const scale = this.getTransform().a;
    if (width * height * scale * scale > 0.5 * this.canvas.width * this.canvas.height) drawn.delete(this.canvas);
    clearRect.call(this, x, y, width, height);
  };
  for (const side of ["width", "height"]) {
    const { get, set } = Object.getOwnPropertyDescriptor(HTMLCanvasElement.prototype, side);
    Object.defineProperty(HTMLCanvasElement.prototype, side, {
      get,
      set(value) {
        drawn.delete(this);
        set.call(this, value);
      },
    });
  }

  const cut = (box, by) => ({
    ...box,
    left: Math.max(box.left, by.left),
    right: Math.min(box.right, by.right),
    top: Math.max(box.top, by.top),
    bottom: Math.min(box.bottom, by.bottom),
  });

  /** What ancestors leave visible of a box. */
  function clipped(box, element) {
    for (let at = element; at && at !== document.body; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.overflow !== "visible" || style.clipPath !== "none") box = cut(box, at.getBoundingClientRect());
    }
    return box;
  }

  function* texts(root) {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      const element = node.parentElement;
      if (!node.data.trim() || element.closest(".sg-spoken, option, .sg-tooltip")) continue;
      if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const { left, right, top, bottom } of range.getClientRects())
        yield clipped({ text: node.data.trim(), node, element, left, right, top, bottom }, element);
    }
    for (const canvas of root.querySelectorAll("canvas")) {
      const box = canvas.getBoundingClientRect();
      const scale = box.width / canvas.width;
      for (const each of drawn.get(canvas) ?? [])
        yield clipped(
          cut(
            {
              text: each.text,
              element: canvas,
              left: box.left + each.left * scale,
              right: box.left + each.right * scale,
              top: box.top + each.top * scale,
              bottom: box.top + each.bottom * scale,
            },
            box,
          ),
          canvas,
        );
    }
  }

  /** Line boxes of small fonts touch without their letters doing so: 3 px are allowed. */
  const overlap = (a, b) =>
    (a.node === undefined || a.node !== b.node) &&
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;

  const described = ({ text, element, left, top }) =>
    `"${text}" (${element.className}) at ${Math.round(left)}, ${Math.round(top)}`;

  window.textOverlaps = () => {
    const found = [];
    for (const root of document.querySelectorAll(".sg-widget")) {
      const all = [...texts(root)].filter(({ left, right, top, bottom }) => right - left > 2 && bottom - top > 3);
      for (const [i, a] of all.entries())
        for (const b of all.slice(i + 1)) if (overlap(a, b)) found.push(`${described(a)} and ${described(b)}`);
    }
    return found;
  };
})();
