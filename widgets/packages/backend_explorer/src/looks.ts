// The looks of what crosses memory: a hue and a hatch for each.

import { type Look, OKABE_ITO } from "@sglab/core";

const look = (fill: string, hatch: Look["hatch"], ink: string): Look => ({ fill, hatch, ink });

export const LOOKS: Look[] = [
  look(OKABE_ITO[4], "none", "#ffffff"), // KV
  look(OKABE_ITO[5], "forward", "#000000"), // copies
  look(OKABE_ITO[2], "horizontal", "#000000"), // partials
  look(OKABE_ITO[3], "cross", "#000000"), // index arrays
  look(OKABE_ITO[6], "dots", "#000000"), // an index's keys and scores
  look("#999999", "none", "#000000"), // Q and O
];
