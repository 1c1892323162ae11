// What crosses between the page and sglab/widgets/warp_roles.py: what every launch widget has, and nothing besides.

import { LAUNCH } from "@sglab/launch/protocol";
import { protocol } from "@sglab/protocol";

export const WARP_ROLES = protocol("warp_roles", 2, LAUNCH, { traits: {}, commands: {}, tensors: {} });
