"""CuTe DSL functions to PTX, without a GPU."""

from __future__ import annotations

import tempfile
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
    target = str(Architecture.parse(arch))
    try:
        import cutlass.cute as cute
    except ImportError:
        raise missing("nvidia-cutlass-dsl", "cute", "Compiling a CuTe DSL function") from None
    name = getattr(function, "__name__", "function")
    with tempfile.TemporaryDirectory() as folder, announced(f"compiling the CuTe DSL function {name} for {target}"):
        try:
            options = f"--gpu-arch {target} --keep-ptx --dump-dir {folder} --generate-line-info"
            compiled = cute.compile(function, *arguments, options=options)
            return Module(vouch(compiled.__ptx__), f"{name} (CuTe DSL)")
        except Exception as error:
            raise CompileError(f"compiling the CuTe DSL function {name} for {target}: {error}") from error
