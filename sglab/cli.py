"""The command line: `sglab doctor`, `backends`, `generate`, `serve`, `run`, `run-program`, `step`, `ptx`, `lab`,
`labs`, `hub`."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from sglab import generate
from sglab.compare_files import add_compare_options, compare_files
from sglab.gpu.architecture import B200_SMS, H100_SMS
from sglab.gpu.errors import GpuError
from sglab.step_file import add_step_options, load_module, step_file

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
FIRST_NOTEBOOK = "00_start_here.ipynb"


def lengths(text: str) -> list[int]:
    """`300,1000,77` as numbers; refuses what is not a list of positive integers."""
    try:
        values = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        values = []
    if not values or min(values) < 1:
        raise argparse.ArgumentTypeError(f"expected token counts such as 300,1000,77, each at least 1; got {text!r}")
    return values


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sglab", description="See LLM-serving attention kernels work.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    commands.add_parser("doctor", help="what this machine can run, and what each missing thing would need")

    program = commands.add_parser("run-program", help="run a CUDA program that nvcc compiled, on the emulator")
    program.add_argument("program", type=Path)
    program.add_argument("arguments", nargs=argparse.REMAINDER, help="of the program")
    program.add_argument("--arch", default="sm_100a", help="default: %(default)s")
    program.add_argument("--sanitize", action="store_true", help="look for races and misuse")

    backends = commands.add_parser("backends", help="what each attention backend serves")
    backends.add_argument("names", nargs="*", metavar="NAME", help="show these alone")
    backends.add_argument(
        "--load", action="append", default=[], type=Path, metavar="FILE.py", help="run it first: it registers backends"
    )

    lab = commands.add_parser(
        "lab", help="open JupyterLab on the notebooks; takes its options, too", usage="%(prog)s [options of JupyterLab]"
    )
    lab.add_argument("--no-browser", action="store_true", help="print the address instead of opening it")
    lab.add_argument("--port", type=int, default=8888, help="default: %(default)s")
    lab.add_argument(
        "--dir",
        type=Path,
        metavar="FOLDER",
        help="work on copies of the notebooks in this folder; those that are there already stay as they are",
    )
    lab.add_argument(
        "--workspace",
        action="store_true",
        help="begin with the workspace sglab: the gallery beside its page table, plan, timeline and debugger",
    )

    from sglab.labs.options import add_labs_options

    add_labs_options(commands.add_parser("labs", help="labs that grade themselves: start, check, hand in, grade"))

    if os.name == "posix":  # control groups, user ids, file locks
        from sglab.classroom.command import add_hub_options

        about = "serve the course to a class from this machine, with JupyterHub"
        add_hub_options(commands.add_parser("hub", help=about))

    ptx = commands.add_parser("ptx", help="print a kernel that comes with sglab, as PTX; without a name list them")
    ptx.add_argument("name", nargs="?", help="such as mla_decode_sm100")

    step = commands.add_parser("step", help="open a kernel of your own in the debugger, in a browser")
    add_step_options(step)
    add_compare_options(
        commands.add_parser("compare", help="run two kernels on the same tensors and go back to where they part")
    )

    generate.add_generate_options(commands.add_parser("generate", help="continue texts with a model"))
    generate.add_serve_options(commands.add_parser("serve", help="serve a model over OpenAI's HTTP API"))

    run = commands.add_parser("run", help="run attention over a batch")
    kinds = run.add_subparsers(dest="what", required=True, metavar="what")
    decode = kinds.add_parser("decode", help="one new token per request")
    add_decode_options(decode)
    return parser


def add_decode_options(decode: argparse.ArgumentParser) -> None:
    decode.add_argument("--seq-lens", type=lengths, required=True, metavar="N,N,…", help="KV tokens of each request")
    decode.add_argument("--backend", help="attention backend; the one SGLang would choose here if not given")
    decode.add_argument(
        "--implementation", default="auto", help="of the backend's operators (auto, triton, reference…)"
    )
    decode.add_argument("--kind", choices=["mla", "mha"], default="mla", help="default: %(default)s")
    decode.add_argument("--num-heads", type=int, default=128, help="query heads; default: %(default)s")
    decode.add_argument("--num-kv-heads", type=int, help="KV heads of mha; as many as query heads if not given")
    decode.add_argument("--page-size", type=int, default=128, help="slots per page; default: %(default)s")
    decode.add_argument("--dtype", choices=["float16", "bfloat16", "float32"], default="float16")
    decode.add_argument("--layout", choices=["contiguous", "fragmented"], default="contiguous")
    decode.add_argument("--device", default="cpu", help="cpu or cuda; default: %(default)s")
    decode.add_argument("--seed", type=int, default=0)
    decode.add_argument("--planner", help="show this planner's plan; the backend's own if not given")
    sms = f"SMs to plan for: by default a B200's {B200_SMS}, for flashmla {H100_SMS}"
    decode.add_argument("--sm-count", type=int, help=sms)
    decode.add_argument("--html", type=Path, metavar="FILE", help="also write a self-contained report")


def open_lab(options: argparse.Namespace, more: Sequence[str]) -> int:
    command, folder = lab_command(options, more)
    return hand_over(command, folder)


def hand_over(command: Sequence[str], folder: Path) -> int:
    """Lets `command` take this process's place, so that it gets what is sent to it: SIGTERM, Ctrl-C.

    Returns:
        The exit status, on Windows, where a process cannot be replaced.
    """
    if os.name == "posix":
        os.chdir(folder)
        sys.stdout.flush()
        os.execv(command[0], list(command))
    try:
        return subprocess.call(command, cwd=folder)
    except KeyboardInterrupt:
        return 0


def lab_command(options: argparse.Namespace, more: Sequence[str] = ()) -> tuple[list[str], Path]:
    """What starts JupyterLab on the notebooks, and where; copies them first if a folder is named.

    Args:
        more: options of JupyterLab's own.

    Raises:
        OSError: the folder cannot be made or written.
        ValueError: there are no notebooks to copy.
    """
    root, notebooks = (NOTEBOOKS.parent, "notebooks/") if NOTEBOOKS.is_dir() else (Path.cwd(), "")
    if options.dir is not None:
        root, notebooks = options.dir.resolve(), ""
        copied, kept = copy_notebooks(root)
        print(f"{root}: {copied} notebooks copied, {kept} kept as they were")
    first = f"{notebooks}{FIRST_NOTEBOOK}"
    address = f"/lab/tree/{first}" if (root / first).exists() else "/lab"
    if options.workspace:
        from sglab.jupyterlab.workspace import NAME, NOTEBOOK, offer_workspace

        offer_workspace(f"{notebooks}{NOTEBOOK}")
        address = f"/lab/workspaces/{NAME}"
    prompt = "--ServerApp.kernel_websocket_connection_class=sglab.widgets.jupyter_connection.PromptConnection"
    command = [sys.executable, "-m", "jupyterlab", f"--port={options.port}", f"--ServerApp.root_dir={root}", prompt]
    command.append(f"--LabApp.default_url={address}")
    if options.no_browser:
        command.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # in a container; Jupyter refuses otherwise
        command.append("--allow-root")
    return [*command, *more], root


def copy_notebooks(folder: Path) -> tuple[int, int]:
    """Copies the course to a folder of one's own; returns how many were copied, and how many were there already."""
    sources = sorted(NOTEBOOKS.glob("*.ipynb"))
    if not sources:
        raise ValueError(f"--dir: there are no notebooks at {NOTEBOOKS} to copy; they come with the repository")
    folder.mkdir(parents=True, exist_ok=True)
    missing = [source for source in sources if not (folder / source.name).exists()]
    for source in missing:
        shutil.copyfile(source, folder / source.name)
    return len(missing), len(sources) - len(missing)


def print_ptx(name: str | None) -> None:
    """One kernel's PTX, or of each its origin and its entries."""
    from sglab.kernels import ptx

    if name is not None:
        print(ptx.text(name), end="")
        return
    for each in ptx.names():
        made = ptx.provenance(each)
        print(f"{each:18} {made.arch:8} {made.compiler}, from {made.source}")
        print(textwrap.fill(", ".join(ptx.module(each)), 110, initial_indent="  ", subsequent_indent="  "))


def run_host_program(options: argparse.Namespace) -> int:
    """The program's own output and exit status."""
    from sglab.cudart.program import run_program

    try:
        ran = run_program([options.program, *options.arguments], options.arch, sanitize=options.sanitize)
    except (GpuError, OSError) as error:
        print(f"sglab: {error}", file=sys.stderr)
        return 2
    print(ran.stdout, end="")
    print(ran.stderr, end="", file=sys.stderr)
    return ran.returncode


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point. Bad input ends with its error on one line and exit status 2."""
    parser = build_parser()
    options, more = parser.parse_known_args(arguments)
    if more and options.command != "lab":
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    if options.command == "doctor":
        from sglab import doctor

        print(doctor.report(doctor.examine()))
        return 0
    if options.command == "run-program":
        return run_host_program(options)
    try:
        if options.command == "lab":
            return open_lab(options, more)
        if options.command == "backends":
            from sglab.attention.table import capabilities_table

            for path in options.load:
                load_module(path)
            print(capabilities_table(options.names))
        elif options.command == "generate":
            generate.generate(options)
        elif options.command == "serve":
            generate.serve(options)
        elif options.command == "labs":
            from sglab.labs.command import run_labs

            return run_labs(options)
        elif options.command == "hub":
            from sglab.classroom.command import run_hub

            run_hub(options)
        elif options.command == "ptx":
            print_ptx(options.name)
        elif options.command == "step":
            step_file(options)
        elif options.command == "compare":
            return compare_files(options)
        else:
            from sglab.run import decode

            decode(options)
    except (ValueError, ImportError, RuntimeError, OSError, GpuError) as error:
        print(f"sglab: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
