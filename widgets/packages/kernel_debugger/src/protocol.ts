// What crosses between the page and sglab/widgets/kernel_debugger.

import {
  bool,
  COMMON,
  command,
  dict,
  float,
  int,
  list,
  nullable,
  optional,
  protocol,
  type Requests,
  type Selection,
  type Source,
  type Tensor,
  tensor,
  text,
} from "@sglab/protocol";

export interface SourceFile {
  path: string;
  name: string;
  language: "cuda" | "python";
  instructions: number;
  available: boolean;
  /** Whether it is of the toolkit or a library, or wraps single instructions: the line that calls it says more. */
  library: boolean;
  /** Why there is no text, or why it may not fit. */
  note: string;
}

export interface CodeInfo {
  entry: string;
  target: string;
  module: string;
  instructions: number;
  kinds: string[];
  events: string[];
  files: SourceFile[];
}

/** CTA, warp, pc, lanes. */
export type Place = [number, number, number, number];
/** pc, lanes, what it waits for, its key, since which position, the same as a sentence. */
export type Group = [number, number, string, number, number | null, string];

export interface Warp {
  cta: number;
  rank: number;
  warp: number;
  executed: number;
  groups: Group[];
  /** What it does in the launch, where that is known. */
  role: string | null;
}

export interface MBarrier {
  cta: number;
  offset: number;
  name: string;
  pending: number;
  expected: number;
  tx: number;
  phase: number;
  /** CTA, warp, since. */
  waiting: [number, number, number | null][];
}

export interface NamedBarrier {
  cta: number;
  number: number;
  name: string;
  arrived: number;
  expected: number;
  phase: number;
  waiting: number[];
  /** Threads of these that have arrived in this phase before. */
  twice: number;
}

/** kind, CTA, warp, lane, pc, shared address, bytes, mbarrier. */
export type InFlight = [string, number, number, number, number, number, number, number | null];

export interface StopPoint {
  id: number;
  kind: "line" | "ptx" | "code" | "watch" | "phase";
  label: string;
  place: { file?: number; line?: number; ptx?: number };
  /** PTX lines before which it stops. */
  lines: number[];
  cta: number | null;
  warp: number | null;
  /** What a lane must hold; empty: anything. Pages saved by older versions do not say. */
  when?: string;
  enabled: boolean;
  /** What Session.unbreak takes. */
  number: number | null;
}

/** What of a breakpoint its readers change. */
export type KeptStop = Pick<StopPoint, "id" | "cta" | "warp" | "when" | "enabled">;

export interface Watch {
  expression: string;
  dtype: string;
  shape: number[];
  address: string;
  bytes?: Tensor | number[];
  /** Number of a finding, and which element lies in its memory. */
  found?: [number, number][];
  error?: string;
}

/** One party of a deadlock; `next` is the index of who was to end its wait, at `nextLine` of the PTX. */
export interface Wait {
  cta: number;
  warp: number;
  ptxLine: number;
  kind: string;
  object: number;
  waits: string;
  next: number | null;
  nextLine: number;
}

export interface Failure {
  kind: string;
  message: string;
  position: number;
  cta?: [number, number, number];
  warp?: number;
  lane?: number;
  ptxLine?: number;
  cycle?: Wait[];
}

/** Who takes part in a finding. pc: -1 where no instruction is meant; asynchronous: the operation that it issued. */
export interface Party {
  cta: number;
  warp: number;
  /** What the warp does in the launch, where that is known. */
  role: string | null;
  lanes: number;
  pc: number;
  position: number;
  asynchronous: boolean;
}

export interface Finding {
  detector: string;
  kind: string;
  message: string;
  severity: "error" | "warning";
  count: number;
  memory: string;
  /** What to watch to see its memory, or "". */
  watch: string;
  at: Party | null;
  other: Party | null;
  otherDid: string;
}

/** Name, type, bytes per lane; a predicate has 0 bytes per lane and one mask. */
export type RegisterRow = [string, string, number];

export interface State {
  moved: number;
  position: number;
  over: boolean;
  last: Place | null;
  next: Place | null;
  /** CTA, warp, group. */
  focus: [number, number, number] | null;
  /** linear, x, y, z, cluster, rank, warps. */
  ctas: [number, number, number, number, number, number, number][];
  warps: Warp[];
  mbarriers: MBarrier[];
  barriers: NamedBarrier[];
  inFlight: InFlight[];
  output: string;
  registers: { rows: RegisterRow[]; bytes: Tensor };
  watches: Watch[];
  sentence: string;
  /** What an edit of breakpoints did, as a sentence. */
  note?: string;
  /** Whether the focus that the reader pinned gave way to the warp for which a run stopped. */
  yields?: boolean;
  /** Whether Python has taken over what the page is to have selected at this moment. */
  told?: boolean;
  stoppedBy: number;
  length: number;
  complete: boolean;
  failure: Failure | null;
  failed: boolean;
  /** Whether sanitizers look on; pages saved by older versions do not say. */
  sanitized?: boolean;
  job: { action: string; from: number } | null;
  stops: StopPoint[];
  findings: Finding[];
  names: string[];
  help: string;
}

/** Whose registers are wanted; nothing: the warp that ran last. */
export interface Look {
  cta?: number;
  warp?: number;
  group?: number;
}

export type Action =
  | "step"
  | "back"
  | "warp"
  | "warp_back"
  | "line"
  | "line_back"
  | "event"
  | "event_back"
  | "warp_event"
  | "warp_event_back"
  | "run"
  | "run_back"
  | "to"
  | "back_to"
  | "write_back"
  | "force"
  | "end"
  | "seek";

export type StopEdit =
  | "toggle_line"
  | "toggle_ptx"
  | "limit"
  | "condition"
  | "enable"
  | "remove"
  | "clear"
  | "add_phase"
  | "add_watch"
  | "put_back";

const look = dict<Look>();
const state = dict<State>();

export const KERNEL_DEBUGGER = protocol("kernel_debugger", 1, COMMON, {
  traits: { code: dict<CodeInfo>(), moved: int() },
  commands: {
    look: command({ look }, state),
    /** Starts a move: to a position, to a line of a file or of the PTX, to who wrote a register. */
    go: command(
      {
        action: text<Action>(),
        look,
        position: optional(int()),
        ahead: optional(bool()),
        file: optional(int()),
        line: optional(int()),
        ptx: optional(int()),
        register: optional(text()),
        selected: optional(dict<Selection>()),
      },
      state,
    ),
    go_on: command({ look }, state),
    halt: command({ look }, state),
    measure: command({ look, seconds: optional(float()) }, state),
    edit_stops: command(
      {
        edit: text<StopEdit>(),
        look,
        id: optional(int()),
        file: optional(int()),
        line: optional(int()),
        cta: optional(nullable(int())),
        warp: optional(nullable(int())),
        when: optional(text()),
        enabled: optional(bool()),
        offset: optional(int()),
        expression: optional(text()),
        access: optional(text<"read" | "write">()),
        points: optional(list<KeptStop>()),
        instead: optional(list<number>()),
      },
      state,
    ),
    watch: command({ expression: text(), look }, state),
    unwatch: command({ expression: text(), look }, state),
  },
  tensors: {
    "code.ptx_line": tensor("int32", ["instructions"]),
    "code.kind": tensor("uint8", ["instructions"]),
    "code.chain": tensor("int32", ["instructions"]),
    "chain.start": tensor("int32", ["chains + 1"]),
    "chain.place": tensor("int32", ["places", 2]),
    "{file}.text": tensor("uint8", ["bytes"]),
    "{file}.start": tensor("int32", ["lines + 1"]),
    // of a saved page
    moments: tensor("uint8", ["bytes"]),
    "values.bytes": tensor("uint8", ["bytes"]),
    "values.start": tensor("int32", ["values + 1"]),
    "sets.bytes": tensor("uint8", ["bytes"]),
    "sets.start": tensor("int32", ["sets + 1"]),
  },
});

export type DebuggerSource = Source<typeof KERNEL_DEBUGGER>;
type Asked = Requests<typeof KERNEL_DEBUGGER>;
/** Commands that answer with the present moment, and what they take besides where the reader looks. */
export type Question = "measure" | "edit_stops" | "watch" | "unwatch";
export type Options<Name extends Question | "go"> = Omit<Asked[Name], "look">;
export type MoveOptions = Omit<Options<"go">, "action">;
export type StopOptions = Omit<Options<"edit_stops">, "edit">;
