// What crosses between the page and sglab/widgets/barriers.py: what every launch widget has, and nothing besides.

import { LAUNCH } from "@sglab/launch/protocol";
import { protocol } from "@sglab/protocol";

export const BARRIERS = protocol("barriers", 2, LAUNCH, { traits: {}, commands: {}, tensors: {} });
