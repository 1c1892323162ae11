// Knows when a page has come to the end of what it does: `quiet.settled()` resolves when no frame and no short timer is
// pending, no answer of Python and no unpacking is awaited, in two frames after each other. Runs before the page's scripts.
(() => {
  const SHORT_MS = 1000; // longer timers watch over something; nothing is drawn after them
  const frames = new Set();
  const timers = new Set();
  let awaited = 0;

  const askFrame = window.requestAnimationFrame.bind(window);
  const dropFrame = window.cancelAnimationFrame.bind(window);
  window.requestAnimationFrame = (draw) => {
    const handle = askFrame((now) => {
      frames.delete(handle);
      draw(now);
    });
    frames.add(handle);
    return handle;
  };
  window.cancelAnimationFrame = (handle) => {
    frames.delete(handle);
    dropFrame(handle);
  };

  const startTimer = window.setTimeout.bind(window);
  const stopTimer = window.clearTimeout.bind(window);
  window.setTimeout = (run, delay = 0, ...values) => {
    const handle = startTimer(() => {
      timers.delete(handle);
      run(...values);
    }, delay);
    if (delay <= SHORT_MS) timers.add(handle);
    return handle;
  };
  window.clearTimeout = (handle) => {
    timers.delete(handle);
    stopTimer(handle);
  };

  const during = (promise) => {
    awaited += 1;
    return promise.finally(() => {
      awaited -= 1;
    });
  };
  const unpack = Response.prototype.arrayBuffer;
  Response.prototype.arrayBuffer = function () {
    return during(unpack.call(this));
  };

  const settled = async (patience) => {
    const end = performance.now() + patience;
    for (let still = 0; still < 2; still += 1) {
      await new Promise((resolve) => askFrame(() => startTimer(resolve)));
      if (frames.size || timers.size || awaited) still = -1;
      if (performance.now() > end)
        throw new Error(`not quiet: ${frames.size} frames, ${timers.size} timers, ${awaited} answers pending`);
    }
  };
  window.quiet = { during, settled };
})();
