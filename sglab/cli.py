"""The command line: `sglab doctor`, `backends`, `generate`, `serve`, `run decode`, `ptx`, `lab`."""

from __future__ import annotations

import argparse
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from sglab import generate
from sglab.gpu.errors import GpuError

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"


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

    commands.add_parser("backends", help="what each attention backend serves")

    lab = commands.add_parser("lab", help="open JupyterLab on the notebooks")
    lab.add_argument("--no-browser", action="store_true", help="print the address instead of opening it")
    lab.add_argument("--port", type=int, default=8888, help="default: %(default)s")

    ptx = commands.add_parser("ptx", help="print a kernel that comes with sglab, as PTX; without a name list them")
    ptx.add_argument("name", nargs="?", help="such as mla_decode_sm100")

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
    decode.add_argument("--sm-count", type=int, help="SMs to plan for: by default a B200's 148, for flashmla 132")
    decode.add_argument("--html", type=Path, metavar="FILE", help="also write a self-contained report")


def open_lab(options: argparse.Namespace) -> int:
    first = NOTEBOOKS / "00_start_here.ipynb"
    folder, target = (NOTEBOOKS, first) if first.exists() else (Path.cwd(), Path.cwd())
    prompt = "--ServerApp.kernel_websocket_connection_class=sglab.widgets.jupyter_connection.PromptConnection"
    command = [sys.executable, "-m", "jupyterlab", f"--port={options.port}", prompt, str(target)]
    if options.no_browser:
        command.insert(3, "--no-browser")
    try:
        return subprocess.call(command, cwd=folder)
    except KeyboardInterrupt:
        return 0


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point. Bad input ends with its error on one line and exit status 2."""
    options = build_parser().parse_args(arguments)
    if options.command == "doctor":
        from sglab import doctor

        print(doctor.report(doctor.examine()))
        return 0
    if options.command == "lab":
        return open_lab(options)
    try:
        if options.command == "backends":
            from sglab.attention.table import capabilities_table

            print(capabilities_table())
        elif options.command == "generate":
            generate.generate(options)
        elif options.command == "serve":
            generate.serve(options)
        elif options.command == "ptx":
            print_ptx(options.name)
        else:
            from sglab.run import decode

            decode(options)
    except (ValueError, ImportError, RuntimeError, OSError, GpuError) as error:
        print(f"sglab: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
