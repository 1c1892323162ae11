"""CUDA C++ of a submission to PTX. Runs in a process of its own; none of the submission's code runs there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sglab
from sglab.compilers.nvcc import compile_cuda
from sglab.gpu.errors import CompileError

PROGRAM = "sglab.labs.launches.build:run"
_PACKAGE = Path(sglab.__file__).parent
HEADERS = (_PACKAGE / "csrc" / "kernels" / "ptx", _PACKAGE.parent / "csrc" / "kernels" / "ptx")
"""Our PTX headers, in an installed package and in a checkout: a submission may include them."""


def run(payload: dict[str, Any]) -> dict[str, str]:
    """Compiles.

    Args:
        payload: source, file (its name), arch, options.

    Returns:
        ptx; error: what nvcc said, empty where it compiled.
    """
    include = [folder for folder in HEADERS if folder.is_dir()]
    try:
        ptx = compile_cuda(payload["source"], payload["arch"], payload["options"], include, name=payload["file"])
    except CompileError as error:
        return {"ptx": "", "error": str(error)[:4000]}
    return {"ptx": ptx, "error": ""}
