"""Our CUDA C++ kernels as PTX, compiled ahead of time: no nvcc is needed to run them.

NAME.ptx.xz is the PTX; NAME.json says which sources, compiler and flags it came from. `csrc/kernels/build_ptx.py` makes
both.
"""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sglab.gpu.errors import GpuError
from sglab.gpu.module import Module

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Provenance:
    """Where a kernel's PTX came from.

    Attributes:
        source: the .cu file, from the repository's root.
        arch: what it was compiled for.
        compiler: such as "nvcc 13.0.88".
        flags: of the compiler.
        headers: packages of headers that are not the compiler's own, with their versions.
        sha256: of every file of ours that went in, by its path from the repository's root.
        threads, shared_bytes: per CTA, the latter of dynamic shared memory; 0 where the source leaves them to its
            callers.
    """

    source: str
    arch: str
    compiler: str
    flags: tuple[str, ...]
    headers: dict[str, str]
    sha256: dict[str, str]
    threads: int = 0
    shared_bytes: int = 0


def names() -> tuple[str, ...]:
    """The kernels that ship with the package."""
    return tuple(sorted(path.name.removesuffix(".ptx.xz") for path in FOLDER.glob("*.ptx.xz")))


def text(name: str) -> str:
    """The PTX of a kernel. Raises GpuError: no kernel has this name."""
    path = FOLDER / f"{name}.ptx.xz"
    if not path.exists():
        raise GpuError(f"ptx: no kernel is called '{name}'; there are {', '.join(names())}")
    return lzma.decompress(path.read_bytes()).decode()


@cache
def provenance(name: str) -> Provenance:
    """Where the PTX of a kernel came from."""
    text(name)
    found = json.loads((FOLDER / f"{name}.json").read_text())
    return Provenance(**{**found, "flags": tuple(found["flags"])})


@cache
def module(name: str) -> Module:
    """A kernel's module, the same object each time, so that a device compiles it once."""
    return Module(text(name), f"{name}.ptx")
