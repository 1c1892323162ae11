// The pipelines between roles as rings: a sector per stage, outside the producers' turn, inside the consumers'.

import { h, type Look, ROLE_LOOKS, SvgPaint, s, type Tooltip, uniqueId } from "@sglab/core";
import type { Launch, Pipeline } from "@sglab/launch/data";
import { roleName } from "@sglab/launch/names";
import { type BarrierSteps, barrierSteps, endedBy } from "@sglab/launch/progress";
import { type Ring, ringAt, STATE_WORDS, type Stage, type StageState } from "./rings";

const SIZE = 112;
const MIDDLE = SIZE / 2;
const OUTER = 42;
const INNER = 24;

interface Drawn {
  pipeline: Pipeline;
  root: HTMLElement;
  svg: SVGSVGElement;
  sectors: SVGPathElement[];
  texts: SVGTextElement[];
  filled: HTMLElement;
  producer: SVGPathElement;
  consumer: SVGPathElement;
  /** What is drawn now. */
  key: string;
}

export class RingsView {
  readonly element = h("div", { class: "swr-rings" });
  #drawn: Drawn[] = [];
  #steps: BarrierSteps[] = [];
  #paint: SvgPaint | undefined;

  #launch: Launch | undefined;
  #selected: number | undefined;
  #step = 0;

  constructor(
    private select: (barrier: number) => void,
    private tooltip: Tooltip,
  ) {}

  load(launch: Launch): void {
    this.#launch = launch;
    this.#steps = barrierSteps(launch);
    const defs = s("defs");
    this.#paint = new SvgPaint(defs, uniqueId("rings"));
    this.#drawn = launch.meta.pipelines.map((pipeline) => this.#make(pipeline));
    this.element.replaceChildren();
    if (!this.#drawn.length) return;
    const shared = s("svg", { width: 0, height: 0, "aria-hidden": "true", class: "swr-defs" }, defs);
    for (const [rank, cta] of launch.meta.ctas.entries()) {
      const rings = this.#drawn.filter(({ pipeline }) => pipeline.rank === rank);
      if (rings.length)
        this.element.append(
          h("div", { class: "sg-heading" }, `Pipelines, barriers of CTA ${cta}`),
          h("div", { class: "swr-ring-row" }, ...rings.map(({ root }) => root)),
        );
    }
    this.element.append(shared, legend());
  }

  show(step: number, selected: number | undefined): void {
    [this.#step, this.#selected] = [step, selected];
    for (const drawn of this.#drawn) this.#update(drawn, ringAt(drawn.pipeline, this.#steps, step), selected);
  }

  #make(pipeline: Pipeline): Drawn {
    const stages = pipeline.full.length;
    const svg = s("svg", { width: SIZE, height: SIZE, viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img" });
    const sectors = pipeline.full.map((_, i) => {
      const sector = s("path", { d: sectorPath(i, stages), class: "swr-sector" });
      sector.addEventListener("click", () => this.#press(pipeline, i));
      sector.addEventListener("pointermove", ({ clientX, clientY }) =>
        this.tooltip.show(this.#tell(pipeline, i), clientX, clientY),
      );
      sector.addEventListener("pointerleave", () => this.tooltip.hide());
      return sector;
    });
    const texts = pipeline.full.map((_, i) => {
      const [x, y] = polar((OUTER + INNER) / 2, turn(i + 0.5, stages));
      return s("text", { x, y, class: "swr-stage" }, String(i));
    });
    const filled = h("div", { class: "swr-filled" });
    const producer = s("path", { d: "M-5,-4 L5,-4 L0,4 Z", class: "swr-turn" });
    const consumer = s("path", { d: "M-5,4 L5,4 L0,-4 Z", class: "swr-turn" });
    svg.append(...sectors, ...texts, producer, consumer);
    const root = h(
      "figure",
      { class: "swr-ring" },
      svg,
      h(
        "figcaption",
        {},
        pipeline.name,
        h("span", { class: "swr-stages" }, ` ${stages > 1 ? `×${stages}` : ""}`),
        filled,
      ),
    );
    return { pipeline, root, svg, sectors, texts, filled, producer, consumer, key: "" };
  }

  /** Its full barrier; pressed again, its empty one. */
  #press({ full, empty }: Pipeline, stage: number): void {
    const other = empty[stage];
    this.select(this.#selected === full[stage] && other !== undefined ? other : (full[stage] as number));
  }

  /** A stage in words: what it holds, and the phases of its barriers. */
  #tell(pipeline: Pipeline, stage: number): string {
    const { stages } = ringAt(pipeline, this.#steps, this.#step);
    const { state, filled } = stages[stage] as Stage;
    const barriers = [pipeline.full[stage], pipeline.empty[stage]].flatMap((barrier) => {
      if (barrier === undefined) return [];
      const ended = endedBy(this.#steps[barrier] as BarrierSteps, this.#step);
      return `${this.#launch?.meta.barriers[barrier]?.name}: phase ${ended}, parity ${ended % 2}`;
    });
    const times = filled === 1 ? "once" : `${filled} times`;
    return [`stage ${stage}: ${STATE_WORDS[state]}, filled ${times}`, ...barriers].join("\n");
  }

  #update(drawn: Drawn, ring: Ring, selected: number | undefined): void {
    const { pipeline, svg, sectors, texts } = drawn;
    const key = JSON.stringify([ring, selected]);
    if (key === drawn.key) return;
    drawn.key = key;
    drawn.filled.textContent = `filled ${ring.stages.map(({ filled }) => filled).join(" ")}`;
    ring.stages.forEach(({ state }, i) => {
      const sector = sectors[i] as SVGPathElement;
      const look = lookOf(pipeline, state);
      sector.style.fill = look && this.#paint ? this.#paint.fill(look) : "";
      sector.dataset.state = state;
      const chosen =
        selected !== undefined && (pipeline.full[i] === selected || pipeline.empty[i] === selected);
      sector.classList.toggle("swr-chosen", chosen);
      const text = texts[i] as SVGTextElement;
      text.style.fill = look && state !== "filling" ? look.ink : "";
      text.style.stroke = look && state !== "filling" ? look.fill : "";
    });
    place(drawn.producer, ring.producer, ring.stages.length, OUTER + 7);
    place(drawn.consumer, ring.consumer, ring.stages.length, INNER - 7);
    svg.setAttribute("aria-label", describe(pipeline, ring));
  }
}

function lookOf({ producers, consumers }: Pipeline, state: StageState): Look | undefined {
  if (state === "empty") return undefined;
  const role = state === "read" ? consumers[0] : producers[0];
  return (ROLE_LOOKS as Record<string, Look>)[role ?? "idle"] ?? ROLE_LOOKS.idle;
}

function describe({ name, producers, consumers }: Pipeline, { stages, producer, consumer }: Ring): string {
  const each = stages.map(
    ({ state, filled }, i) => `stage ${i} ${STATE_WORDS[state]}, filled ${filled} times`,
  );
  const at = (stage: number) => (stage < 0 ? "not begun" : `at stage ${stage}`);
  return (
    `${name}: ${each.join("; ")}. Producer ${producers.map(roleName).join(" and ")} ${at(producer)}, ` +
    `consumer ${consumers.map(roleName).join(" and ")} ${at(consumer)}.`
  );
}

function place(arrow: SVGPathElement, stage: number, stages: number, radius: number): void {
  arrow.style.display = stage < 0 ? "none" : "";
  const angle = turn(stage + 0.5, stages);
  const [x, y] = polar(radius, angle);
  arrow.setAttribute("transform", `translate(${x},${y}) rotate(${(angle * 180) / Math.PI + 90})`);
}

/** Clockwise from the top. */
function turn(part: number, of: number): number {
  return (2 * Math.PI * part) / of - Math.PI / 2;
}

function polar(radius: number, angle: number): [number, number] {
  return [MIDDLE + radius * Math.cos(angle), MIDDLE + radius * Math.sin(angle)];
}

function sectorPath(stage: number, stages: number): string {
  if (stages === 1) return `${circle(OUTER, 1)} ${circle(INNER, 0)}`;
  const [from, to] = [turn(stage, stages) + 0.03, turn(stage + 1, stages) - 0.03];
  const large = to - from > Math.PI ? 1 : 0;
  const [a, b, c, d] = [polar(OUTER, from), polar(OUTER, to), polar(INNER, to), polar(INNER, from)];
  return `M${a} A${OUTER},${OUTER} 0 ${large} 1 ${b} L${c} A${INNER},${INNER} 0 ${large} 0 ${d} Z`;
}

function circle(radius: number, sweep: 0 | 1): string {
  const [top, bottom] = [`${MIDDLE},${MIDDLE - radius}`, `${MIDDLE},${MIDDLE + radius}`];
  return `M${top} A${radius},${radius} 0 1 ${sweep} ${bottom} A${radius},${radius} 0 1 ${sweep} ${top} Z`;
}

function legend(): HTMLElement {
  return h(
    "p",
    { class: "sg-note" },
    "A sector is a stage. Plain: empty. Light: being filled. In the producer's look: full. In the consumer's: being read. " +
      "The outer arrow is the producer's turn, the inner one the consumer's. Press a stage for its full barrier, once " +
      "more for its empty one; below is how often each stage was filled.",
  );
}
