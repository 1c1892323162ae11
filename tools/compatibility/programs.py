"""Host code that nvcc compiles: programs that check themselves, and glue that calls host functions."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import torch

from sglab.compilers.cache import cached, content_key
from sglab.compilers.nvcc import find_nvcc, nvcc_version, run_nvcc
from sglab.cudart import build_extension, run_program
from tools.compatibility.case import Case, Check, RefusedError
from tools.compatibility.meter import Meter

_NO_SYMBOL = 127  # the dynamic linker's
OWN = "the program's own reference"
_LAUNCH = re.compile(r"(\d+) warp-instructions, [\d.]+ ms, ([\d.]+) ms of CPU time")
_FINDING = re.compile(r"^sglab: .*?: (?:error|warning): (\w+):", re.MULTILINE)
_PROBLEM = re.compile(r"^sglab: (?!.*warp-instructions)(?!.*(?:error|warning): )(?!.* cluster \()(.+)$", re.MULTILINE)
RELAXED = (
    "--expt-relaxed-constexpr",
    "--expt-extended-lambda",
    "-diag-suppress",
    "177,549,550,20012,20013,20014,20015",
)


def called(
    kernel: str,
    name: str,
    source: str,
    call: Callable[[Calls], list[Check]],
    include: Sequence[Path] = (),
    arch: str = "sm_100a",
    options: Sequence[str] = (),
) -> Case:
    """A case whose kernels are launched by compiled host functions.

    Args:
        name: of the extension; cases with one source share it.
        source: CUDA C++ with extern "C" functions that take pointers, ints and floats.
        call: calls them and returns what is to be checked.
    """

    def run(meter: Meter) -> list[Check]:
        extension = build_extension(name, source, arch, (*RELAXED, *options), include)
        return call(Calls(extension, meter))

    return Case(kernel, run, arch)


class Calls:
    """The functions of an extension: `calls("name", tensor, 3, 0.5)`."""

    def __init__(self, extension: object, meter: Meter) -> None:
        self._extension, self._meter = extension, meter

    def __call__(self, function: str, *args: object) -> None:
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        with self._extension.on(self._meter, tensors):
            status = getattr(self._extension.library, function)(*map(_word, args))
        if status:
            raise RefusedError(f"{function} returned {status}")


def _word(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return ctypes.c_void_p(value.data_ptr())
    if value is None:
        return ctypes.c_void_p(None)
    return ctypes.c_float(value) if isinstance(value, float) else ctypes.c_int64(value)


def program(
    kernel: str,
    source: Path,
    arguments: Sequence[str],
    passed: str,
    include: Sequence[Path],
    arch: str = "sm_100a",
    options: Sequence[str] = (),
    others: Sequence[Path] = (),
    data: Sequence[Path] = (),
    sms: int | None = None,
    faults: bool = False,
) -> Case:
    """A program that compares its results with a reference of its own.

    Args:
        passed: what it prints once it is content; a regular expression.
        others: sources that are compiled with it.
        data: folders of files that it reads: a copy of what they hold lies where it starts.
        sms: of the emulated GPU: programs that fill it with CTAs are smaller on fewer.
        faults: a kernel of it is meant to fault.
    """

    def run(meter: Meter) -> list[Check]:
        executable = _built(source, arch, tuple(include), tuple(options), tuple(others))
        with tempfile.TemporaryDirectory() as folder:
            for each in data:
                shutil.copytree(each, folder, dirs_exist_ok=True)
            ran = run_program(
                [executable, *arguments],
                arch=arch,
                sms=sms,
                env={"SGLAB_VERBOSE": "1"},
                sanitize=bool(meter.sanitize),
                folder=Path(folder),
            )
        launches = _LAUNCH.findall(ran.stderr)
        meter.count(len(launches), sum(int(n) for n, _ in launches), sum(float(ms) for _, ms in launches) / 1e3)
        meter.found.update(Counter(_FINDING.findall(ran.stderr)))
        if faults:
            meter.count(1, 0, 0.0)  # a launch that did not end
        elif problem := _PROBLEM.search(ran.stderr):
            raise RefusedError(problem[1])
        elif not launches or ran.returncode == _NO_SYMBOL:
            raise RefusedError(f"exit code {ran.returncode}: {(ran.stdout + ran.stderr)[-200:]}")
        content = (
            ran.returncode == 0 and re.search(passed, ran.stdout) is not None and (faults or "ailed" not in ran.stdout)
        )
        return [Check(torch.tensor(content), torch.tensor(True))]

    return Case(kernel, run, arch, OWN)


@cache
def curand() -> tuple[Path, ...]:
    """The folder of cuRAND's headers that a wheel adds to a toolkit without them: pip install nvidia-curand."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or ())] if spec else []
    return tuple(header.parent for root in roots for header in root.glob("cu*/include/curand_kernel.h"))[:1]


@cache
def _built(
    source: Path, arch: str, include: tuple[Path, ...], options: tuple[str, ...], others: tuple[Path, ...]
) -> Path:
    number = arch.removeprefix("sm_")
    nvcc = find_nvcc()
    flags = [
        *("-std=c++17", "-O3", "-cudart", "shared", "--no-compress", *RELAXED),
        *("-gencode", f"arch=compute_{number},code=compute_{number}", *options),
    ]
    texts = [each.read_text(errors="replace") for each in (source, *others)]
    key = content_key(nvcc_version(nvcc), str(source), *texts, *flags)

    def build(folder: Path) -> None:
        paths = [f"-I{path}" for path in (source.parent, *include, *curand())]
        run_nvcc([str(nvcc), *flags, *paths, str(source), *map(str, others), "-o", "program"], source.name, folder)

    return cached("compatibility", key, build) / "program"
