"""CuTe DSL functions to PTX, without a GPU."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from typing import Any

from sglab.compilers.vouched import vouch
from sglab.gpu.architecture import Architecture
from sglab.gpu.errors import CompileError, missing
from sglab.gpu.module import Module
from sglab.gpu.progress import announced


def compile_cute(function: Any, *arguments: Any, arch: str = "sm_100a") -> Module:
    """The kernels that a `@cute.jit` function launches, as a module. Host code of the function does not run.

    Args:
        arguments: what cute.compile takes, such as cutlass.cute.runtime.make_fake_compact_tensor(Float32, (1000,)): a
            tensor of known shape becomes a pointer parameter, unknown sizes and strides follow it in a struct.

    Raises:
        CompileError: with what the DSL says.
        MissingDependencyError: nvidia-cutlass-dsl is not installed.
    """
    compiled = compiled_cute(function, arguments, arch)
    return Module(vouch(compiled.__ptx__), f"{_name(function)} (CuTe DSL)")


def compiled_cute(function: Any, arguments: Sequence[Any], arch: str) -> Any:
    """What `cute.compile` returns, with its PTX and lines. Raises as `compile_cute` does."""
    target = str(Architecture.parse(arch))
    try:
        import cutlass.cute as cute
    except ImportError:
        raise missing("nvidia-cutlass-dsl", "cute", "Compiling a CuTe DSL function") from None
    name = _name(function)
    with tempfile.TemporaryDirectory() as folder, announced(f"compiling the CuTe DSL function {name} for {target}"):
        try:
            options = f"--gpu-arch {target} --keep-ptx --dump-dir {folder} --generate-line-info"
            compiled = cute.compile(function, *arguments, options=options)
            _ = compiled.__ptx__  # read before the folder goes
            return compiled
        except Exception as error:
            raise CompileError(f"compiling the CuTe DSL function {name} for {target}: {_said(error)}") from error


def _said(error: Exception) -> str:
    """What the DSL says, without colours for a terminal and without our own line, to which it points as the caller."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()
    return re.sub(rf"\n *--> {re.escape(__file__)}.*(?:\n *\d* *\|.*)*", "", text)


def _name(function: Any) -> str:
    return getattr(function, "__name__", "function")
