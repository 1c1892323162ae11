"""One call from a file or a text to a module."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sglab.gpu.errors import GpuError
from sglab.gpu.module import Module


def load(
    source: str | Path,
    arch: str = "sm_100a",
    options: Sequence[str] = (),
    include: Sequence[str | Path] = (),
) -> Module:
    """A module from a .ptx file, a .cu file, PTX text or CUDA C++ text.

    Args:
        arch: what CUDA C++ is compiled for; PTX says itself what it is for.
        options, include: for nvcc.

    Raises:
        GpuError: the source is neither.
        CompileError: nvcc refused it.
        FileNotFoundError: it does not exist.
    """
    from sglab.compilers.nvcc import compile_cuda

    if not isinstance(source, (str, Path)):
        raise GpuError(f"load: expected a path, or the text of a .ptx or .cu file; got {type(source).__name__}")
    if isinstance(source, str) and "\n" in source:
        if ".version" in source and ".target" in source:
            return Module(source)
        return Module(compile_cuda(source, arch, options, include), "<cuda>")
    path = Path(source)
    if path.suffix in {".ptx", ".cu"} and path.is_dir():
        raise GpuError(f"load: expected a file; '{source}' is a folder")
    if path.suffix == ".ptx":
        return Module(_text(path), path.name, path.parent)
    if path.suffix == ".cu":
        return Module(compile_cuda(path, arch, options, include), path.name, path.parent)
    raise GpuError(f"load: expected a .ptx or .cu file, or the text of one; got '{source}'")


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise GpuError(
            f"load: {path.name} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}"
        ) from None
