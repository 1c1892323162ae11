// The library that draws: it crosses as bytes once per page, is kept there, and is imported when a roofline is first drawn.

import type { RooflineSource } from "./protocol";

export interface Picked {
  points: { customdata?: number }[];
  event: MouseEvent;
}

export interface PlotElement extends HTMLElement {
  on?(event: "plotly_click" | "plotly_hover" | "plotly_unhover", listener: (picked: Picked) => void): void;
  on?(event: "plotly_doubleclick", listener: () => void): void;
  on?(event: "plotly_relayout" | "plotly_relayouting", listener: (change: object) => void): void;
  layout?: object;
}

export interface Plotly {
  react(place: HTMLElement, data: object[], layout: object, config: object): Promise<unknown>;
  restyle(place: HTMLElement, style: object, traces: number[]): Promise<unknown>;
  relayout(place: HTMLElement, change: object): Promise<unknown>;
  purge(place: HTMLElement): void;
}

const KEY = Symbol.for("sglab.plotly.v1");
const ALL = 2 ** 31 - 1; // bytes

/** The library, loaded once for all rooflines of a page. */
export function loadPlotly(source: RooflineSource): Promise<Plotly> {
  const page = globalThis as unknown as Record<symbol, Promise<Plotly> | undefined>;
  page[KEY] ??= read(source).catch((error) => {
    delete page[KEY]; // the next one tries again
    throw error;
  });
  return page[KEY];
}

async function read(source: RooflineSource): Promise<Plotly> {
  const { data } = await source.slice("plotly", 0, ALL);
  const url = URL.createObjectURL(new Blob([new Uint8Array(data)], { type: "text/javascript" }));
  try {
    const module = (await import(url)) as { default: Plotly };
    return module.default;
  } finally {
    URL.revokeObjectURL(url);
  }
}
