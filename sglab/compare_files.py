"""What `sglab compare` does: two kernels of files on the same tensors, and the way back to where they part."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sglab.gpu.errors import LaunchError
from sglab.step_file import FILE_HELP, add_launch_options, arguments, attribute, is_kernel, launch_from

if TYPE_CHECKING:
    from sglab.emulator.captures import CapturedLaunch
    from sglab.stepping.compare import Other


def add_compare_options(compare: argparse.ArgumentParser) -> None:
    compare.add_argument("file", help=FILE_HELP)
    compare.add_argument(
        "other",
        help="such a file again; file.py::function of a reference, which is called with tensors by the names of the "
        "kernel's parameters; an architecture such as sm_90a, or interpreter (Triton's), to run the same kernel there",
    )
    add_launch_options(compare)
    compare.add_argument("--rtol", type=float, default=0.0, help="relative to other's value; default: %(default)s")
    compare.add_argument("--most", type=int, default=40, help="steps of the way back; default: %(default)s")
    compare.add_argument("--atol", type=float, default=0.0, help="absolute; default: %(default)s")


def compare_files(options: argparse.Namespace) -> int:
    """Prints what differs and the way back; 1 if anything does, else 0.

    Raises:
        GpuError, ValueError, OSError: naming the option or the argument.
    """
    from sglab import stepping

    args, named = arguments(options.arg, options.seed)
    mine = _single(options.file, options, args, named)
    found = stepping.compare(mine, _other(options, args, named), rtol=options.rtol, atol=options.atol)
    print(found.told)
    if found.parting is None:
        return 0
    if found.parting.a is not None:
        print(f"the way back:\n{found.parting.trace(options.most)}")
    return 1


def _single(file: str, options: argparse.Namespace, args: list[Any], named: dict[str, Any]) -> CapturedLaunch:
    from sglab.emulator.captures import Capture

    launch = launch_from(file, options, args, named)
    return launch.main if isinstance(launch, Capture) else launch


def _other(options: argparse.Namespace, args: list[Any], named: dict[str, Any]) -> Other:
    from sglab import gpu

    other: str = options.other
    if other == "interpreter":
        return "interpreter"
    if other.startswith("sm_"):
        return gpu.EmulatedDevice(other, sanitize=True)
    place, _, name = other.partition("::")
    path = Path(place)
    if path.suffix not in (".cu", ".ptx", ".py"):
        raise LaunchError(
            f"other: expected a file (.cu, .ptx, .py), an architecture such as sm_90a, or interpreter; got {other!r}"
        )
    if path.suffix == ".py" and not is_kernel(function := attribute(path, name)):
        reference: Other = function
        return reference
    return _single(other, options, args, named)
