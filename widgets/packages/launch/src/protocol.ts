// What WarpRoles and Barriers have in common: sglab/widgets/launch_view.py.

import { COMMON, command, dict, extend, int, none, type Source, tensor } from "@sglab/protocol";
import type { LaunchMeta } from "./tables";

/** Tables are columns one after the other; `times` are modelled ns, aligned with the tables of their names. */
export const LAUNCH = extend(COMMON, {
  traits: { launch: dict<LaunchMeta>(), now: int() },
  commands: {
    seek: command({ position: int() }, none()),
    show: command({ cluster: int() }, int()),
    show_cta: command({ cta: int() }, int()),
  },
  tensors: {
    events: tensor("int32", [4, "events"]),
    waits: tensor("int32", [7, "waits"]),
    phases: tensor("int32", [5, "phases"]),
    states: tensor("int32", [6, "states"]),
    actions: tensor("int32", [5, "actions"]),
    operations: tensor("int32", [10, "operations"]),
    copies: tensor("int32", [11, "copies"]),
    page_reads: tensor("int32", [5, "reads"]),
    page_ctas: tensor("int32", [4, "ctas"]),
    code: tensor("uint8", ["bytes"]),
    "times.events": tensor("float32", [2, "events"]),
    "times.phases": tensor("float32", [1, "phases"]),
    "times.operations": tensor("float32", [2, "operations"]),
    "times.states": tensor("float32", [1, "timed states"]),
    "timed.states": tensor("int32", [5, "timed states"]),
  },
});

export type Launched = typeof LAUNCH;
export type LaunchSource = Source<Launched>;
