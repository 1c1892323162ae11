"""The cell magic `%%cuda`: a cell of CUDA C++ whose kernels become Python names."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from IPython.core.error import UsageError

from sglab.gpu.errors import GpuError
from sglab.stepping.cuda import cuda

CELL = "cell.cu"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise UsageError(f"%%cuda: {message}; {self.format_usage().strip()}")


def _parser() -> _Parser:
    parser = _Parser(prog="%%cuda", add_help=False)
    parser.add_argument("name", nargs="?", help="of the variable that holds all kernels of the cell")
    parser.add_argument("--arch", help="such as sm_90a; by default the GPU that the tensors are on, or a B200")
    parser.add_argument("--include", action="append", default=[], metavar="FOLDER")
    parser.add_argument("--option", action="append", default=[], metavar="-DNAME=1", help="for nvcc")
    return parser


def cuda_cell(shell: Any, line: str, cell: str) -> None:
    """Compiles the cell. Each of its kernels becomes a name of the notebook: `axpy[4, 128](x, out, n)`.

    Args:
        shell: IPython's, whose names are set.
        line: what follows `%%cuda`: [NAME] [--arch sm_90a] [--include FOLDER] [--option=-DN=1].

    Raises:
        UsageError: nvcc refused it, with its output; lines are the cell's. IPython shows it without a traceback.
    """
    options = _parser().parse_args(shlex.split(line))
    if options.name is not None and not options.name.isidentifier():
        raise UsageError(f"%%cuda: expected a name for the variable; got {options.name!r}")
    # The magic's own line is the first of the cell: what is compiled has an empty one there.
    try:
        program = cuda("\n" + cell, options.arch, options.option, options.include, name=CELL)
    except GpuError as error:
        raise UsageError(str(error)) from None
    made = {name: program[name] for name in program.short_names()}
    if options.name is not None:
        made[options.name] = program
    shell.push(made)
    listed = [f"{name}[grid, block](…)" for name in made if made[name] is not program]
    print(
        ", ".join(listed) or f"{program!r}; name the cell to reach them: %%cuda NAME, then NAME['entry'][grid, block]"
    )
