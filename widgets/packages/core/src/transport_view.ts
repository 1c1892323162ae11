// The transport's controls: ⏮ ◀ ▶/⏸ ▶| ⏭, step size, slider with marks, speed, and the readout.

import { h, s, setAttributes, setText } from "./dom";
import type { Disposer } from "./emitter";
import { count } from "./format";
import { SPEEDS, type Transport } from "./transport";

const SHOWN_MARKS = 200;
const NOTHING = "There is nothing to step through.";

/** Drawn, because few fonts have ⏮ and ⏭. */
const ICONS = {
  first: "M2,3 h2 v10 h-2 z M9,3 v10 l-5,-5 z M14,3 v10 l-5,-5 z",
  back: "M11.5,3 v10 l-8,-5 z",
  play: "M4.5,3 v10 l8,-5 z",
  pause: "M4,3 h3 v10 h-3 z M9,3 h3 v10 h-3 z",
  forward: "M4,3 v10 l7,-5 z M11.5,3 h1.5 v10 h-1.5 z",
  last: "M12,3 h2 v10 h-2 z M7,3 v10 l5,-5 z M2,3 v10 l5,-5 z",
};
type Icon = keyof typeof ICONS;

function icon(name: Icon): SVGSVGElement {
  const path = s("path", { d: ICONS[name], fill: "currentColor" });
  return s("svg", { width: 16, height: 16, viewBox: "0 0 16 16", "aria-hidden": "true" }, path);
}

export function transportView(transport: Transport, disposer: Disposer): HTMLElement {
  const first = button("first", "To the beginning (Home)", () => transport.goTo(0));
  const back = button("back", "Step back (←)", () => transport.step(-1));
  const play = button("play", "Play (Space)", () => transport.toggle());
  const forward = button("forward", "Step forward (→)", () => transport.step(1));
  const last = button("last", "To the end (End)", () => transport.goTo(transport.track.length));

  const size = h("select", { class: "sg-select", "aria-label": "Step size" });
  disposer.listen(size, "change", () => transport.setGranularity(size.value));

  const speed = h("select", { class: "sg-select", "aria-label": "Speed" });
  for (const rate of SPEEDS) speed.append(h("option", { value: rate }, `${rate} /s`));
  disposer.listen(speed, "change", () => transport.setSpeed(Number(speed.value)));

  const slider = h("input", { type: "range", class: "sg-slider", min: 0, step: 1, "aria-label": "Position" });
  disposer.listen(slider, "input", () => {
    transport.pause();
    transport.goTo(Number(slider.value));
  });
  const marks = h("div", { class: "sg-marks", "aria-hidden": "true" });
  const counter = h("span", { class: "sg-counter" });
  const sentence = h("output", { class: "sg-sentence", "aria-live": "polite" });

  let shownTrack: unknown;
  const showTrack = () => {
    if (shownTrack === transport.track) return;
    shownTrack = transport.track;
    const { granularities, length } = transport.track;
    size.replaceChildren(...granularities.map(({ id, label }) => h("option", { value: id }, label)));
    size.hidden = granularities.length < 2;
    slider.max = String(length);
    marks.replaceChildren(...markElements(transport));
  };

  let shownPlaying = false;
  const showPlay = (playing: boolean) => {
    shownPlaying = playing;
    play.replaceChildren(icon(playing ? "pause" : "play"));
    play.title = playing ? "Pause (Space)" : "Play (Space)";
    play.setAttribute("aria-label", play.title);
  };

  const update = () => {
    showTrack();
    const { position, playing, track } = transport;
    if (playing !== shownPlaying) showPlay(playing);
    for (const control of [first, back]) control.disabled = position === 0;
    for (const control of [forward, last]) control.disabled = position >= track.length && !track.open;
    const empty = track.length === 0 && !track.open;
    for (const control of [play, slider, size, speed]) control.disabled = empty;
    setAttributes(bar, { title: empty ? NOTHING : "", "aria-busy": transport.moving ? "true" : "false" });
    setAttributes(size, { title: empty ? NOTHING : "Step size" });
    setAttributes(speed, { title: empty ? NOTHING : "Steps per second when playing" });
    setAttributes(slider, { max: track.length });
    setValue(size, transport.granularity.id);
    setValue(speed, String(transport.speed));
    setValue(slider, String(position));
    const text = track.describe(position);
    const time = track.time?.(position);
    const end = track.open ? "" : ` of ${count(track.length)}${track.atLeast ? " or more" : ""}`;
    const name = track.name?.(position) ?? `step ${count(position)}${end}`;
    setText(counter, `${name}${time ? ` · ${time}` : ""}`);
    setAttributes(slider, { "aria-valuetext": `${name}: ${text}` });
    // A screen reader cannot keep up with playback: it hears the last sentence when playback stops.
    setAttributes(sentence, { "aria-live": playing ? "off" : "polite" });
    setText(sentence, text);
  };
  const bar = h(
    "div",
    { class: "sg-transport", role: "group", "aria-label": "Transport" },
    h("div", { class: "sg-buttons" }, first, back, play, forward, last, size, speed),
    h("div", { class: "sg-slider-box" }, slider, marks),
    h("div", { class: "sg-readout" }, counter, sentence),
  );
  disposer.add(transport.changed.on(update));
  disposer.add(() => transport.dispose());
  update();
  return bar;
}

function setValue(control: HTMLInputElement | HTMLSelectElement, value: string): void {
  if (control.value !== value) control.value = value;
}

function button(name: Icon, label: string, run: () => void): HTMLButtonElement {
  const attributes = { type: "button", class: "sg-button sg-icon", "aria-label": label, title: label };
  const element = h("button", attributes, icon(name));
  element.addEventListener("click", run);
  return element;
}

/** At most `SHOWN_MARKS` ticks: more could not be distinguished. */
function markElements(transport: Transport): HTMLElement[] {
  const { marks = [], length } = transport.track;
  const every = Math.ceil(marks.length / SHOWN_MARKS);
  return marks
    .filter((_, i) => i % every === 0)
    .map(({ at, label }) => {
      const tick = h("span", { class: "sg-mark", title: label });
      tick.style.left = `${(100 * at) / Math.max(1, length)}%`;
      return tick;
    });
}
