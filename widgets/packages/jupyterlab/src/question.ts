// Questions to a kernel as Python expressions, and what comes back. sglab/jupyterlab/answers.py answers them.

export const PROTOCOL = 1;

/** One row of the side panel: `Thing` of sglab/jupyterlab/things.py. */
export interface Thing {
  number: number;
  kind: "batch" | "launch" | "session" | "recording" | "run" | "engine" | "layout" | "points";
  names: string[];
  title: string;
  detail: string;
  /** The kernel's name, where the title has a shorter one. */
  whole?: string;
  widgets: string[];
}

export interface Questions {
  list: { request: Record<string, never>; answer: { things: Thing[] } };
  open: { request: { thing: number; widget: string }; answer: { model: string; title: string } };
  view: { request: { model: string }; answer: { model: string | null } };
  close: { request: { model: string }; answer: Record<string, never> };
  save: { request: { model: string }; answer: { path: string; folder: string } };
  next_finding: { request: { thing: number }; answer: { said: string } };
}

/** sglab is not imported in this kernel: there is nothing to ask. */
export class NotImportedError extends Error {}

/** An expression without side effects on the notebook: it defines no name, and imports nothing if sglab is not there. */
export function expression(question: keyof Questions, request: object): string {
  const named = Object.entries(request).map(([name, value]) => `, ${name}=${JSON.stringify(value)}`);
  const asked = `__import__("sglab.jupyterlab", fromlist=["answer"]).answer("${question}"${named.join("")})`;
  return `${asked} if "sglab" in __import__("sys").modules else None`;
}

/** The answer in the value of a user expression. */
export function readAnswer<Q extends keyof Questions>(value: unknown): Questions[Q]["answer"] {
  const told = value as
    | { status?: string; ename?: string; evalue?: string; data?: Record<string, unknown> }
    | undefined;
  if (told?.status === "error") {
    if (told.ename === "ModuleNotFoundError")
      throw new Error(
        "This kernel's sglab is older than the JupyterLab extension. Install one version of both.",
      );
    throw new Error(`${told.ename}: ${told.evalue}`);
  }
  const answer = told?.data?.["application/json"] as { protocol?: number; error?: string } | undefined;
  if (!answer) throw new NotImportedError();
  if (answer.protocol !== PROTOCOL)
    throw new Error(
      `This kernel's sglab speaks version ${answer.protocol} of what the extension speaks version ${PROTOCOL} of. ` +
        "Install one version of both, restart the kernel and reload the page.",
    );
  if (answer.error !== undefined) throw new Error(answer.error);
  return answer as unknown as Questions[Q]["answer"];
}
